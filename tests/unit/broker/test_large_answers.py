"""Short requests with large answers: several turns, the same answer as in one, and room for others between the turns."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.groups_rig import DELETE, FIND, GroupsRig
from tests.unit.broker.test_fault_injection import add
from tests.unit.noted_calls import note_calls
from yak.broker import delayed_leader_requests
from yak.broker.apis import (
    alter_partition_reassignments,
    alter_replica_log_dirs,
    create_topics,
    delete_topics,
    describe_configs,
    elect_leaders,
    metadata,
    offset_commit,
)
from yak.broker.apis import offset_fetch as offset_fetch_api
from yak.broker.call import Call, Outcome
from yak.broker.large_requests import LARGE_ANSWERS_MAX
from yak.errors import ProtocolViolation
from yak.groups.consumer.group import ConsumerGroup
from yak.groups.consumer.records import Change, Kind, MemberValue
from yak.groups.group import Group
from yak.groups.offsets import Committed
from yak.limits import SLICE_ELEMENTS
from yak.protocol import codec, pace
from yak.protocol.pace import at_once
from yak.sim.request_fields import topic_fields
from yak.storage.producer_state import _Producer
from yak.transactions.shard import TransactionalId
from yak.transactions.transaction import Transaction

COUNT = 3 * SLICE_ELEMENTS
LIST_OFFSETS, METADATA, OFFSET_FETCH, DESCRIBE_GROUPS, LIST_GROUPS, CONFIGS, LOG_DIRS = 2, 3, 9, 15, 16, 32, 35
PRODUCERS, LIST_TRANSACTIONS, CONSUMER_GROUPS, PAGES = 61, 66, 69, 75
FIND_TRANSACTIONS = {"key_type": 1, "coordinator_keys": ["t"]}
ALL = {"allow_auto_topic_creation": False}


def offset_fetch(group: str) -> dict[str, Any]:
    one = {"group_id": group, "topics": None, "member_id": None, "member_epoch": -1}
    return {"groups": [one], "require_stable": True}


ANSWERED: dict[str, tuple[int, int, dict[str, Any]]] = {
    "metadata of all": (METADATA, 12, {"topics": None} | ALL),
    "metadata of a topic": (METADATA, 12, {"topics": [{"name": "wide"}]} | ALL),
    "page": (PAGES, 0, {"topics": [], "response_partition_limit": 2000, "cursor": None}),
    "log directories": (LOG_DIRS, 4, {"topics": None}),
    "offsets of a topic": (OFFSET_FETCH, 9, offset_fetch("wide")),
    "offsets of topics": (OFFSET_FETCH, 9, offset_fetch("long")),
    "groups": (LIST_GROUPS, 5, {"states_filter": (), "types_filter": ()}),
    "members": (DESCRIBE_GROUPS, 5, {"groups": ["g"]}),
    "transactions": (LIST_TRANSACTIONS, 1, {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}),
    "consumers": (CONSUMER_GROUPS, 1, {"group_ids": ["consumers"]}),
    "producers": (PRODUCERS, 0, {"topics": [{"name": "orders", "partition_indexes": [0, 0, 9]}]}),
}


def consumer_group(rig: GroupsRig) -> ConsumerGroup:
    group = rig.node.broker.group_coordinator.of("consumers", may_be_empty=True).shard.ensure("consumers")
    group.consumer = ConsumerGroup("consumers")
    named = {"topic_names": frozenset(["orders"]), "client_id": "c", "client_host": "h", "topic_regex": ""}
    value = MemberValue(**(dict.fromkeys(MemberValue.__dataclass_fields__) | named))
    for number in range(COUNT):
        group.consumer.state.replay(Change(Kind.MEMBER, "consumers", f"m{number}", value))
    return group.consumer


@pytest.fixture(scope="module")
def rig() -> GroupsRig:
    rig = GroupsRig()
    rig.create_topic("wide", partitions=COUNT)
    broker = rig.node.broker
    rig.member("g", session_ms=1_000_000)
    for name, topics in (("wide", 1), ("long", COUNT)):
        offsets = broker.group_coordinator.of(name, may_be_empty=True).shard.ensure(name).offsets
        for number in range(COUNT):
            offsets.put("wide" if topics == 1 else f"t{number}", number, Committed(number, 0, "", 0), 0)
    for number in range(COUNT):
        shard = broker.group_coordinator.of(f"g{number}", may_be_empty=True).shard
        shard.ensure(f"g{number}").offsets.put("orders", 0, Committed(1, 0, "", 0), 0)
    consumer_group(rig)
    members = broker.group_coordinator.of("g").shard.groups["g"].members.members
    (member,) = members.values()
    members.update((f"m{number}", member) for number in range(COUNT))
    while rig.ask(FIND, 4, **FIND_TRANSACTIONS).coordinators[0].error_code != ErrorCode.none:
        rig.run_for(50)
    (*_, transactions) = broker.transaction_coordinator.runtime.coordinated.values()
    ids = (f"t{number}" for number in range(COUNT))
    transactions.shard.ids.update((name, TransactionalId(Transaction(name, 7))) for name in ids)
    log = broker.partitions["orders", 0].log
    log.producers._producers = {number: _Producer(0, 0, broker.now_ms) for number in range(COUNT)}
    return rig


def served_at_once(rig: GroupsRig, request: tuple[int, int, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Any:
    def answer(_call: Call, served: Any, **_named: Any) -> Outcome:
        return at_once(served)

    with monkeypatch.context() as patch:
        patch.setattr(rig.node.broker.large_requests, "answer", answer)
        return rig.ask(request[0], request[1], **request[2])


class Turns:
    """How many items each turn of large requests encodes."""

    def __init__(self, rig: GroupsRig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.encoded = [0]
        large_requests, item_writer = rig.node.broker.large_requests, codec._item_writer
        advance = large_requests._advance

        def counted_advance(*args: Any) -> None:
            self.encoded.append(0)
            advance(*args)

        def counted_writer(*args: Any) -> Any:
            write = item_writer(*args)

            def counted_write(out: bytearray, item: dict[str, Any]) -> None:
                self.encoded[-1] += 1
                write(out, item)

            return counted_write

        monkeypatch.setattr(large_requests, "_advance", counted_advance)
        monkeypatch.setattr(codec, "_item_writer", counted_writer)


@pytest.mark.parametrize("request_", ANSWERED.values(), ids=ANSWERED)
def test_short_request_with_a_large_answer_takes_several_turns_and_has_the_answer_of_one(rig, monkeypatch, request_):
    expected = served_at_once(rig, request_, monkeypatch)
    turns = Turns(rig, monkeypatch)
    assert rig.ask(request_[0], request_[1], **request_[2]) == expected
    assert sum(turns.encoded) >= COUNT
    assert max(turns.encoded) <= SLICE_ELEMENTS + 2
    broker = rig.node.broker
    assert len(broker.large_requests) == len(broker.purgatory) == broker.held_bytes == 0


def test_large_answer_that_waited_for_a_job_is_encoded_in_several_turns(rig, monkeypatch):
    turns = Turns(rig, monkeypatch)
    rows = [{"partition_index": index, "current_leader_epoch": -1, "timestamp": 5} for index in range(COUNT)]
    answer = rig.ask(LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=[{"name": "wide", "partitions": rows}])
    assert [row.partition_index for row in answer.topics[0].partitions] == list(range(COUNT))
    assert sum(turns.encoded) >= COUNT
    assert max(turns.encoded) <= SLICE_ELEMENTS + 2


WIDE = {"name": "wide", "partitions": [{"partition_index": n} for n in range(COUNT)]}
EACH = {
    "elections": (elect_leaders, "plan_requested_election", (43, 2, {"topic_partitions": None})),
    "reassignments": (
        alter_partition_reassignments,
        "plan_reassignment",
        (45, 0, {"topics": [WIDE]}),
    ),
    "deletions": (delete_topics, "_find_for_deletion", (20, 4, {"topic_names": [f"t{n}" for n in range(COUNT)]})),
    "commits": (
        offset_commit,
        "_is_too_long",
        (8, 8, {"group_id": "new", "generation_id_or_member_epoch": -1, "member_id": "", "topics": [WIDE]}),
    ),
    "moves": (
        alter_replica_log_dirs,
        "_outcome",
        (34, 2, {"dirs": [{"path": "/", "topics": [{"name": "wide", "partitions": list(range(COUNT))}]}]}),
    ),
}


@pytest.mark.parametrize(("module", "decide", "request_"), EACH.values(), ids=EACH)
def test_changes_of_many_partitions_are_decided_some_in_each_turn(rig, monkeypatch, module, decide, request_):
    decided = note_calls(monkeypatch, module, decide)
    pending = rig.begin(request_[0], request_[1], **request_[2])
    seen = 0
    while not pending.is_done:
        rig.run_for(1)
        assert len(decided) - seen <= 2 * SLICE_ELEMENTS, "two turns"
        seen = len(decided)
    assert len(decided) >= COUNT


def test_each_topic_with_configs_of_its_own_counts_as_many_elements_of_a_slice(monkeypatch):
    rig = GroupsRig()
    for number in range(20):
        rig.create_topic(f"t{number}", segment_bytes=str(10_000 + number))
    resources = [{"resource_type": 2, "resource_name": f"t{number}"} for number in range(20)]
    fields = {"resources": resources, "include_synonyms": True, "include_documentation": True}
    described = note_calls(monkeypatch, describe_configs, "describe_topic")
    pending = rig.begin(CONFIGS, 4, **fields)
    seen = 0
    while not pending.is_done:
        rig.run_for(1)
        assert len(described) - seen <= 8, "two turns of four topics"
        seen = len(described)
    assert len(pending.answer.results) == len(described) == 20


def test_topics_are_planned_some_in_each_turn(monkeypatch):
    rig = GroupsRig()
    planned = note_calls(monkeypatch, create_topics, "_new_topic")
    topics = [topic_fields(f"t{number}", {}) for number in range(SLICE_ELEMENTS // 4)]
    pending = rig.begin(19, 5, topics=topics, timeout=dt.timedelta(seconds=30), validate_only=False)
    seen = 0
    while not pending.is_done:
        rig.run_for(1)
        assert len(planned) - seen <= SLICE_ELEMENTS // 5, "two turns"
        seen = len(planned)
    assert {row.error_code for row in pending.answer.topics} == {ErrorCode.none}


def test_groups_are_deleted_in_slices(monkeypatch):
    rig = GroupsRig()
    broker = rig.node.broker
    names = [f"g{number}" for number in range(SLICE_ELEMENTS // 2)]
    for name in names:
        shard = broker.group_coordinator.of(name, may_be_empty=True).shard
        shard.ensure(name).offsets.put("orders", 0, Committed(1, 0, "", 0), 0)
    deleted = note_calls(monkeypatch, Group, "forgetting")
    pending = rig.begin(DELETE, 2, groups_names=[*names, "nowhere"])
    seen = 0
    while not pending.is_done:
        rig.run_for(1)
        assert len(deleted) - seen <= SLICE_ELEMENTS // 4, "two turns"
        seen = len(deleted)
    codes = [row.error_code for row in pending.answer.results]
    assert codes == [ErrorCode.none] * len(names) + [ErrorCode.group_id_not_found]
    assert [group.group_id for (group,) in deleted] == names
    assert list(rig.groups()) == []


def test_request_behind_a_large_answer_is_served_after_it(rig):
    client = rig.new_client()
    one = rig.begin(METADATA, 12, client=client, **ANSWERED["metadata of all"][2])
    behind = rig.begin(FIND, 0, client=client, key="g")
    while not rig.node.broker.held_bytes:
        rig.run_for(1)
    other = rig.ask(FIND, 0, client=rig.new_client(), key="g")
    assert other.error_code == ErrorCode.none
    assert not one.is_done
    while not behind.is_done:
        rig.run_for(1)
        assert one.is_done or not behind.is_done
    assert rig.node.broker.held_bytes == 0


def test_closed_connection_drops_the_rest_of_a_large_answer(rig):
    client = rig.new_client()
    rig.begin(METADATA, 12, client=client, **ANSWERED["metadata of all"][2])
    rig.begin(FIND, 0, client=client, key="g")
    while not rig.node.broker.held_bytes:
        rig.run_for(1)
    client.close()
    rig.run_for(5)
    broker = rig.node.broker
    assert len(broker.large_requests) == len(broker.purgatory) == broker.held_bytes == 0


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many that another client commits between two of them."""
    for module in (offset_fetch_api, pace):
        monkeypatch.setattr(module, "SLICE_ELEMENTS", 10)


@pytest.mark.usefixtures("small_slices")
def test_offsets_of_a_large_answer_are_those_of_its_first_slice(rig):
    """A later commit may not be committed by the in-sync replicas yet when its slice reads it."""
    pending = rig.begin(OFFSET_FETCH, 9, client=rig.new_client(), **ANSWERED["offsets of a topic"][2])
    while not len(rig.node.broker.large_requests):
        rig.run_for(1)
    assert rig.commit({("wide", COUNT - 1): 7}, "wide") == {("wide", COUNT - 1): ErrorCode.none}
    rig.run_for(1000)
    (topic,) = pending.answer.groups[0].topics
    assert topic.partitions[-1].committed_offset == COUNT - 1


@pytest.mark.usefixtures("small_slices")
def test_offsets_of_many_groups_are_those_of_the_first_slice(rig):
    """Groups count too: the answer has slices although the groups have no offsets yet."""
    names = [f"new{number}" for number in range(500)]
    for name in names:
        rig.node.broker.group_coordinator.of(name, may_be_empty=True).shard.ensure(name)
    groups = [group for name in names for group in offset_fetch(name)["groups"]]
    pending = rig.begin(OFFSET_FETCH, 9, client=rig.new_client(), groups=groups, require_stable=True)
    while not len(rig.node.broker.large_requests):
        rig.run_for(1)
    assert rig.commit({("wide", 0): 7}, names[-1]) == {("wide", 0): ErrorCode.none}
    rig.run_for(1000)
    assert not any(group.topics for group in pending.answer.groups)


def test_answers_beyond_a_few_are_not_divided(rig):
    """Each has copied what it answers at its first slice: 1,000 clients would take gigabytes."""
    key, version, fields = ANSWERED["groups"]
    pending = [rig.begin(key, version, client=rig.new_client(), **fields) for _ in range(3 * LARGE_ANSWERS_MAX)]
    large_requests, most = rig.node.broker.large_requests, 0
    while not all(each.is_done for each in pending):
        rig.run_for(1)
        most = max(most, len(large_requests))
    assert most in (LARGE_ANSWERS_MAX - 1, LARGE_ANSWERS_MAX), "or one ended in the last millisecond"
    assert len({len(each.answer.groups) for each in pending}) == 1


@pytest.mark.parametrize("name", ["metadata of all", "metadata of a topic", "offsets of a topic", "offsets of topics"])
def test_answers_beyond_a_few_wait_where_they_are_large_for_certain(rig, name):
    """They have copied nothing yet."""
    key, version, fields = ANSWERED[name]
    pending = [rig.begin(key, version, client=rig.new_client(), **fields) for _ in range(2 * LARGE_ANSWERS_MAX)]
    large_requests, most = rig.node.broker.large_requests, 0
    while not all(each.is_done for each in pending):
        rig.run_for(1)
        most = max(most, len(large_requests))
    assert most > LARGE_ANSWERS_MAX
    assert all(each.answer == pending[0].answer for each in pending)


def test_decision_about_leaders_that_many_clients_wait_for_answers_none_of_them_in_its_step(rig, monkeypatch):
    key, version, fields = ANSWERED["metadata of all"]
    suspected, answered = rig.node.broker.suspected_brokers, note_calls(monkeypatch, metadata, "_answer")
    with monkeypatch.context() as patch:
        patch.setattr(suspected, "lead", lambda _leaders: True)
        pending = [rig.begin(key, version, client=rig.new_client(), **fields) for _ in range(3 * LARGE_ANSWERS_MAX)]
        rig.run_for(20)
    assert answered == []
    suspected.wake()
    assert answered == []
    rig.run_for(1_000)
    assert all(each.is_done and not each.is_lost for each in pending)


def test_leaders_of_all_topics_are_found_once_for_an_image(monkeypatch):
    rig = GroupsRig()
    found = note_calls(monkeypatch, delayed_leader_requests, "leaders_of")
    key, version, fields = ANSWERED["metadata of all"]
    for _ in range(3):
        rig.ask(key, version, **fields)
    assert len(found) == 1
    rig.create_topic("new")
    rig.ask(key, version, **fields)
    assert len(found) == 2


def test_producer_that_expires_meanwhile_is_left_out(rig):
    pending = rig.begin(PRODUCERS, 0, **ANSWERED["producers"][2])
    while not len(rig.node.broker.large_requests):
        rig.run_for(1)
    state = rig.node.broker.partitions["orders", 0].log.producers
    state.expire(rig.node.broker.now_ms + 10_000, 10_000)
    rig.run_for(1000)
    assert len(pending.answer.topics[0].partitions[0].active_producers) < COUNT


def test_answer_with_an_injected_fault_is_complete_before_it_is_changed():
    rig = GroupsRig(yak_fault_injection_enable="true")
    rig.create_topic("wide", partitions=COUNT)
    place = {"topic": "wide", "partition": 7}
    add(rig, "inject_error", api="Metadata", error="LEADER_NOT_AVAILABLE", **place, after=True, times=1)
    key, version, fields = ANSWERED["metadata of a topic"]
    for wrong in ([7], []):
        (topic,) = rig.ask(key, version, **fields).topics
        assert [row.partition_index for row in topic.partitions if row.error_code] == wrong
        assert len(topic.partitions) == COUNT


def test_violation_in_a_later_slice_closes_only_its_connection(rig, monkeypatch):
    def broken(*_args: object) -> list[bytes]:
        raise ProtocolViolation("no such field")

    monkeypatch.setattr(codec, "encode_response", broken)
    client = rig.new_client()
    pending = rig.begin(METADATA, 12, client=client, **ANSWERED["metadata of all"][2])
    rig.run_for(1_000)
    assert pending.is_lost
    monkeypatch.undo()
    broker = rig.node.broker
    assert len(broker.large_requests) == len(broker.purgatory) == broker.held_bytes == 0
    assert rig.ask(FIND, 0, client=rig.new_client(), key="g").error_code == ErrorCode.none
