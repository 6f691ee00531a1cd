"""Real clients share a topic: they come, leave and die, and every record is given to one of them, none after its commit."""

import contextlib
import shutil
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from support.client_kinds import Confluent
from support.group_processes import ALL_KINDS, KCAT, PYTHON_KINDS, SESSION_MS, Group, Member, Place
from support.loads import SteadyLoad
from support.waiting import wait_until

PARTITIONS = 6
PAUSE_SECONDS = 0.005


def needs(kind: str) -> None:
    if kind == KCAT and shutil.which("kcat") is None:
        pytest.skip("kcat is not on PATH: apt-get install kcat")


def load_of(broker, topic: str) -> SteadyLoad:
    return SteadyLoad(broker.bootstrap, topic, partitions=PARTITIONS, pause_seconds=PAUSE_SECONDS)


def committed_by(bootstrap: str, group: str) -> dict[Place, int]:
    """What the coordinator says that a group has committed."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return {(each.topic, each.partition): each.offset for each in asked[group].result(20).topic_partitions}


@contextlib.contextmanager
def quiet(load: SteadyLoad, group: Group, kind: str) -> Iterator[None]:
    """Under kcat nothing is on its way: it stores the offset of a record, and ends without having printed it."""
    if kind == KCAT:
        load.pause()
        group.wait_seen(load, group.topics[0])
    yield
    load.go_on()


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_members_come_leave_and_die_and_no_record_is_lost_or_read_again(group_broker, topic, kind):
    needs(kind)
    with load_of(group_broker, topic) as load, Group(group_broker.bootstrap, f"g-{topic}", topic) as group:
        first, second, third = (group.start(kind) for _ in range(3))
        group.wait_shared(PARTITIONS, first, second, third)
        group.wait_progress()
        with quiet(load, group, kind):
            first.leave()
        group.wait_shared(PARTITIONS, second, third)
        group.wait_progress()
        with quiet(load, group, kind):
            second.kill()
        at_death = committed_by(group_broker.bootstrap, group.name)
        died = time.monotonic()
        group.wait_shared(PARTITIONS, third)
        fourth = group.start(kind)
        group.wait_shared(PARTITIONS, third, fourth)
        group.wait_progress(20, third, fourth)
        load.stop()
        assert load.failed == []
        group.wait_seen(load, topic)
        for member in (third, fourth):
            member.leave()
        group.check()
        assert_not_read_again((third, fourth), died, at_death)
        reached = {number: max(offset for offset in load.offsets[number] if offset is not None) for number in range(6)}
        if kind != KCAT:
            # kcat commits what it printed a moment ago, the others what they were given
            assert group.committed() == {(topic, number): last + 1 for number, last in reached.items()}
        assert committed_by(group_broker.bootstrap, group.name) == {(topic, n): last + 1 for n, last in reached.items()}


def assert_not_read_again(members: tuple[Member, ...], since: float, committed: dict[Place, int]) -> None:
    """None of these was given a record that was committed before `since`."""
    for member in members:
        for event in member.of("records"):
            for name, partition, offset in event["of"]:
                assert event["at"] < since or offset >= committed.get((name, partition), 0)


@pytest.mark.parametrize("kind", PYTHON_KINDS)
def test_static_member_that_restarts_causes_no_rebalance_for_other_members(group_broker, topic, kind):
    with load_of(group_broker, topic) as load, Group(group_broker.bootstrap, f"g-{topic}", topic) as group:
        stays, goes = (group.start(kind, instance=f"i{number}", session_ms=60_000) for number in range(2))
        group.wait_shared(PARTITIONS, stays, goes)
        group.wait_progress(5, stays, goes)
        held, before, generation = goes.holds(), stays.rebalances(), generation_of(group_broker, group.name)
        goes.kill()
        back = group.start(kind, instance="i1", session_ms=60_000)
        wait_until(lambda: back.holds() == held, "it has its old partitions again", 30)
        group.wait_progress(5, stays, back)
        assert stays.rebalances() == before
        assert generation_of(group_broker, group.name) == generation
        load.stop()
        group.wait_seen(load, topic)
        group.check()


def generation_of(broker, group: str) -> int:
    """The last generation that the broker says became stable."""
    lines = [line for line in broker.log().splitlines() if " group-stable " in line and f"group={group} " in line]
    return int(lines[-1].partition(" generation=")[2].split()[0])


def test_two_static_members_of_one_name_fence_each_other(group_broker, topic):
    with Group(group_broker.bootstrap, f"g-{topic}", topic) as group:
        first = group.start("confluent-kafka", instance="twin")
        group.wait_shared(PARTITIONS, first)
        second = Consumer(
            {
                "bootstrap.servers": group_broker.bootstrap,
                "group.id": group.name,
                "group.instance.id": "twin",
                "session.timeout.ms": SESSION_MS,
                "log_level": 0,
            }
        )
        try:
            second.subscribe([topic])
            wait_until(lambda: second.poll(0.1) is not None or len(second.assignment()) == PARTITIONS, "it is taken in")
            first.process.wait(30)
            (fatal,) = first.of("fatal")
            assert "fenced" in fatal["words"]
        finally:
            second.close()


def test_cooperative_rebalance_stops_no_member_whose_partitions_stay(group_broker, topic):
    """While one member takes its time to give something up, the other is given records without a break."""
    other = f"{topic}-other"
    Confluent(group_broker.bootstrap).create_topic(other, partitions=2, configs={"retention.ms": "-1"})
    with (
        load_of(group_broker, topic) as load,
        SteadyLoad(group_broker.bootstrap, other, partitions=2, pause_seconds=PAUSE_SECONDS) as other_load,
        Group(group_broker.bootstrap, f"g-{topic}", topic) as group,
    ):
        asked = {"strategy": "cooperative-sticky", "slow_revoke_seconds": 3.0}
        untouched = group.start("confluent-kafka", other, strategy="cooperative-sticky")
        shares = group.start("confluent-kafka", topic, **asked)
        group.wait_shared(PARTITIONS + 2, untouched, shares)
        group.wait_progress(20, untouched, shares)
        comes = group.start("confluent-kafka", topic, **asked)
        group.wait_shared(PARTITIONS + 2, untouched, shares, comes)
        gave_up = shares.of("revoked")[-1]["at"]
        taken = next(event["at"] for event in comes.of("assigned") if event["partitions"])
        assert taken > gave_up
        during = [event for event in untouched.of("records") if gave_up < event["at"] < taken]
        assert len(during) >= 5, "it was stopped while the others rebalanced"
        assert untouched.of("revoked") == []
        assert untouched.holds() == {(other, 0), (other, 1)}
        kept = shares.holds()
        given_up = {tuple(place) for event in shares.of("revoked") for place in event["partitions"]}
        assert len(kept) == len(given_up) == PARTITIONS // 2
        assert not kept & given_up, "what it kept was taken from it meanwhile"
        for each in (load, other_load):
            each.stop()
        group.wait_seen(load, topic)
        group.wait_seen(other_load, other)
        group.check()
