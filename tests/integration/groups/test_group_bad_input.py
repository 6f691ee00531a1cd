"""What members should not send: each gets the error that Kafka gives, the broker stays small, and others go on."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from hypothesis import strategies as st
from support.fuzzing import fuzz, mutated_requests, valid_requests
from support.group_processes import Group
from support.loads import SteadyLoad
from support.raw import Health, RawClient, RawTarget, assert_no_bugs
from support.waiting import wait_until

from tests.rig import Rig
from tests.unit.broker.raw_connection import RawConnection
from yak.sim.wire import read_answer

FIND, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE = 10, 11, 12, 13, 14, 15
GROUP_APIS = frozenset({8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47, 68, 69})
UNKNOWN_SERVER_ERROR, NONE, ILLEGAL_GENERATION, INVALID_GROUP_ID, UNKNOWN_MEMBER_ID = -1, 0, 22, 24, 25
INVALID_SESSION_TIMEOUT, MEMBER_ID_REQUIRED = 26, 79
MANY = 10_000
MIB = 1024 * 1024


@pytest.fixture
def raw(group_broker: Any) -> Iterator[RawClient]:
    with RawClient(group_broker.port) as client:
        wait_until(lambda: client.ask(FIND, 3, key="g", key_type=0).error_code == NONE, "groups are served")
        yield client


def join_fields(group: str, member: str = "", **changed: Any) -> dict[str, Any]:
    """JoinGroup v5."""
    return {
        "group_id": group,
        "session_timeout": dt.timedelta(milliseconds=changed.get("session_ms", 10_000)),
        "rebalance_timeout": dt.timedelta(milliseconds=changed.get("rebalance_ms", 10_000)),
        "member_id": member,
        "group_instance_id": changed.get("instance"),
        "protocol_type": changed.get("kind", "consumer"),
        "protocols": [{"name": "range", "metadata": changed.get("metadata", b"\0\0\0\0\0\0\xff\xff\xff\xff")}],
    }


def join(raw: RawClient, group: str, **changed: Any) -> Any:
    """Both rounds."""
    answer = raw.ask(JOIN, 5, **join_fields(group, **changed))
    if answer.error_code == MEMBER_ID_REQUIRED:
        answer = raw.ask(JOIN, 5, **join_fields(group, answer.member_id, **changed))
    return answer


def sync_fields(group: str, joined: Any, assignment: bytes = b"all") -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "group_instance_id": None,
        "assignments": [{"member_id": joined.member_id, "assignment": assignment}],
    }


def beat(raw: RawClient, group: str, member: str, generation: int) -> int:
    fields = {"group_id": group, "generation_id": generation, "member_id": member, "group_instance_id": None}
    return int(raw.ask(HEARTBEAT, 4, **fields).error_code)


def test_bad_names_sessions_and_generations_get_kafkas_errors(raw, unique_topic):
    assert raw.ask(JOIN, 5, **join_fields(unique_topic, session_ms=2**31 - 1)).error_code == INVALID_SESSION_TIMEOUT
    for group in ("", "x" * 65_536):
        answer = raw.ask(JOIN, 9, **join_fields(group), reason=None)
        assert (answer.error_code, answer.member_id) == (INVALID_GROUP_ID, "")
        assert beat(raw, group, "m", 1) == INVALID_GROUP_ID
    joined = join(raw, unique_topic)
    assert raw.ask(SYNC, 3, **sync_fields(unique_topic, joined)).error_code == NONE
    assert beat(raw, unique_topic, joined.member_id, joined.generation_id) == NONE
    assert beat(raw, unique_topic, joined.member_id, 2**31 - 1) == ILLEGAL_GENERATION
    assert beat(raw, unique_topic, "stranger", joined.generation_id) == UNKNOWN_MEMBER_ID


def test_the_longest_names_are_remembered(raw, unique_topic):
    """A client's name becomes its member id, with something unique behind: it must still fit into a record."""
    group = unique_topic + "y" * 30_000
    answer = raw.ask(JOIN, 5, **join_fields(group, instance="i" * 32_000))
    assert answer.error_code == NONE
    assert raw.ask(SYNC, 3, **sync_fields(group, answer) | {"group_instance_id": "i" * 32_000}).error_code == NONE


def test_a_subscription_that_does_not_parse_is_the_members_own_business(raw, unique_topic):
    joined = join(raw, unique_topic, metadata=b"\0\0\x7f\xff\xff\xffgarbage")
    assert raw.ask(SYNC, 3, **sync_fields(unique_topic, joined, b"\xff")).assignment == b"\xff"
    (found,) = raw.ask(DESCRIBE, 5, groups=[unique_topic], include_authorized_operations=False).groups
    assert (found.group_state, found.members[0].member_metadata[:4]) == ("Stable", b"\0\0\x7f\xff")


def test_member_that_joins_and_never_syncs_is_removed_and_the_others_continue(group_broker, topic):
    with (
        RawClient(group_broker.port) as raw,
        SteadyLoad(group_broker.bootstrap, topic, partitions=6, pause_seconds=0.005) as load,
        Group(group_broker.bootstrap, f"g-{topic}", topic) as group,
    ):
        subscribed = b"\0\0\0\0\0\x01" + len(topic).to_bytes(2, "big") + topic.encode() + b"\xff\xff\xff\xff"
        asked = {"metadata": subscribed, "session_ms": 60_000, "rebalance_ms": 1_500}
        joined = join(raw, group.name, **asked)
        assert joined.error_code == NONE
        member = group.start("confluent-kafka", settings={"max.poll.interval.ms": 3_000})
        group.wait_shared(6, member)
        load.stop()
        group.wait_seen(load, topic)
        assert beat(raw, group.name, joined.member_id, joined.generation_id) in (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION)


def test_ten_megabytes_about_oneself_are_more_than_a_record_holds(group_broker, raw, unique_topic):
    """As in Kafka, the member is taken in, and the assignment cannot be written; a smaller one then can."""
    process = psutil.Process(group_broker.pid)
    before = process.memory_info().rss
    for number in range(5):
        group = f"{unique_topic}-{number}"
        joined = join(raw, group, metadata=b"x" * (10 * MIB))
        assert joined.error_code == NONE
        assert raw.ask(SYNC, 3, **sync_fields(group, joined)).error_code == UNKNOWN_SERVER_ERROR
        raw.ask(LEAVE, 2, group_id=group, member_id=joined.member_id)
        again = join(raw, group)
        assert raw.ask(SYNC, 3, **sync_fields(group, again)).error_code == NONE
    assert process.memory_info().rss - before < 100 * MIB


def ids_asked_for(raw: RawClient, group: str, count: int) -> list[Any]:
    """So many first rounds, a few hundred on the way at a time."""
    answers = []
    for start in range(0, count, 250):
        frames = [raw.request(JOIN, 5, **join_fields(group)) for _ in range(start, min(count, start + 250))]
        for frame in frames:
            raw.send_frame(frame)
        answers += [read_answer(JOIN, 5, raw.receive_frame())[1] for _ in frames]
    return answers


def test_ten_thousand_that_ask_for_an_id_and_never_come(group_broker, raw, unique_topic):
    process = psutil.Process(group_broker.pid)
    before = process.memory_info().rss
    answers = ids_asked_for(raw, unique_topic, MANY + 50)
    assert {answer.error_code for answer in answers} == {MEMBER_ID_REQUIRED}
    assert process.memory_info().rss - before < 60 * MIB
    forgotten = raw.ask(JOIN, 5, **join_fields(unique_topic, answers[0].member_id))
    assert forgotten.error_code == UNKNOWN_MEMBER_ID
    latest = answers[-1].member_id
    raw.ask(LEAVE, 2, group_id=unique_topic, member_id=latest)
    assert_no_bugs(group_broker)


# ------------------------------------------------------------------------------------------------------------- fuzz


def seeded(rig: Rig) -> None:
    """Groups that exist: one with a member, one with offsets."""
    answer = rig.ask(FIND, 3, key="fuzz", key_type=0)
    while answer.error_code != NONE:
        rig.run_for(50)
        answer = rig.ask(FIND, 3, key="fuzz", key_type=0)
    joined = rig.ask(JOIN, 5, **join_fields("fuzz", instance="fuzz"))
    assert joined.error_code == NONE
    assert rig.ask(SYNC, 3, **sync_fields("fuzz", joined) | {"group_instance_id": "fuzz"}).error_code == NONE


@pytest.mark.parametrize("kind", ["valid", "mutated"])
def test_the_core_takes_any_request_about_groups(kind):
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1",
        "offsets.retention.check.interval.ms": "10000000",  # groups that become empty stay, to be compared
    }
    rig = Rig(settings=settings)
    rig.create_topic("fuzz", partitions=2)
    seeded(rig)

    def attempt(frame: bytes) -> None:
        connection = RawConnection(rig)
        connection.send(frame)
        rig.run_for(2)
        connection.close()

    frames: st.SearchStrategy[bytes] = (valid_requests if kind == "valid" else mutated_requests)(GROUP_APIS)
    assert fuzz(1.0, frames, attempt) > 50
    rig.run_for(2_000_000)
    assert not any(held.shard.unreadable for held in rig.node.broker.group_coordinator.runtime.coordinated.values())
    before = known(rig)
    assert before, "there is nothing to compare"
    rig.restart()
    wait = 0
    while (
        not rig.node.broker.group_coordinator.runtime.coordinated
        or rig.node.broker.group_coordinator.runtime.is_loading()
    ):
        rig.run_for(10)
        wait += 1
        assert wait < 1_000
    assert known(rig) == before, "what was written is not what is known"
    assert not any(held.shard.unreadable for held in rig.node.broker.group_coordinator.runtime.coordinated.values())


def known(rig: Rig) -> dict[str, Any]:
    """What there is to remember of every group, of either protocol."""
    return {
        name: (group.members.state, group.consumer and group.consumer.state, dict(group.offsets.topics))
        for held in rig.node.broker.group_coordinator.runtime.coordinated.values()
        for name, group in held.shard.groups.items()
        if not group.is_void and (group.consumer or group.members.protocol_type is not None or group.offsets)
    }


def test_a_live_broker_takes_any_request_about_groups(group_broker):
    health = Health(group_broker, "healthy")
    target = RawTarget(group_broker, 0.02)
    assert fuzz(1.0, mutated_requests(GROUP_APIS), target.attempt) > 20
    target.close()
    health.check()
    health.close()
