"""Records of `__consumer_offsets` with values out of range: refused at load with one line, or harmless to every request."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker import group_requests as ask
from tests.unit.broker.requests import restart
from tests.unit.broker.test_consumer_groups import begin_heartbeat, describe, make_rig
from yak.groups.classic.records import group_key
from yak.groups.consumer.records import (
    Change,
    ClassicMetadata,
    CurrentValue,
    GroupValue,
    Kind,
    MemberValue,
    TargetEpochValue,
    TargetValue,
    encode,
)
from yak.groups.offsets import OFFSETS_TOPIC, Committed, offset_record
from yak.groups.record import Record
from yak.ids import TopicPartition
from yak.protocol.record_fields import INT32_MAX, INT32_MIN, FieldWriter
from yak.views.group_lag import TopicLag, add_lags, coordinated_groups

NONE = ErrorCode.none
EXTREMES = st.sampled_from([INT32_MIN, -3, -2, -1, 0, 1, 5, INT32_MAX - 1, INT32_MAX])


def load(rig: Rig, *records: Record) -> None:
    """Write these to the group's partition, and have the coordinator read it again."""
    partition = rig.node.broker.partitions[TopicPartition(OFFSETS_TOPIC, 0)]
    rig.node.broker.coordinator_partitions.append(partition, records)
    restart(rig)


def refusals(rig: Rig) -> list[dict[str, Any]]:
    return [notice.fields for notice in rig.node.notices if notice.event == "group-records-refused"]


def classic_record(
    generation: int = 1,
    protocol: str | None = "range",
    members: tuple[tuple[str, str | None], ...] = (("m", None),),
    *,
    protocol_type: str = "consumer",
    timeouts_ms: tuple[int, int] = (20_000, 10_000),
    leader: str | None = "m",
) -> Record:
    value = FieldWriter().int16(3).text(protocol_type).int32(generation).text(protocol).text(leader).int64(0)
    value.int32(len(members))
    for member_id, instance_id in members:
        value.text(member_id).text(instance_id).text("client").text("/127.0.0.1")
        value.int32(timeouts_ms[0]).int32(timeouts_ms[1]).blob(b"m").blob(b"")
    return Record(group_key("g"), value.done())


def consumer_records(
    epoch: int, target_epoch: int, member_epoch: int, classic: ClassicMetadata | None = None, **member: int
) -> list[Record]:
    changes = [
        Change(
            Kind.MEMBER, "g", "m", MemberValue(topic_names=("orders",), rebalance_timeout_ms=20_000, classic=classic)
        ),
        Change(Kind.GROUP, "g", "", GroupValue(epoch, 7)),
        Change(Kind.TARGET, "g", "m", TargetValue()),
        Change(Kind.TARGET_EPOCH, "g", "", TargetEpochValue(target_epoch)),
        Change(Kind.CURRENT, "g", "m", CurrentValue(member_epoch, member.get("previous", member_epoch), 0)),
    ]
    return [encode(change) for change in changes]


def ask_everything(rig: Rig, generation: int) -> None:
    """Every request that a group takes; a broker that fails at one of them raises here."""
    for member_id in ("m", ""):
        ask.begin_join(rig, 9, "g", member_id)
        ask.begin_join(rig, 9, "g", member_id, instance="i")
        rig.ask(12, 4, group_id="g", generation_id=generation, member_id=member_id)
        begin_heartbeat(rig, member_id or "n", 0)
        if generation >= -2:
            begin_heartbeat(rig, member_id or "n", generation)
    sync: dict[str, Any] = {"group_id": "g", "generation_id": generation, "member_id": "m"}
    rig.begin(14, 3, **sync)
    ask.describe(rig)
    describe(rig)
    ask.fetch(rig, [0, 1])
    rig.run_for(1_000)
    rig.ask(13, 5, group_id="g", members=[{"member_id": "m"}])
    rig.run_for(31_000)
    assert ask.describe(rig, "unknown").error_code == ErrorCode.group_id_not_found, "it serves others"


def test_offset_with_negative_partition_is_refused_and_lag_is_served():
    rig = make_rig()
    assert ask.commit(rig, {0: 2}) == [NONE]
    load(rig, *(offset_record("g", "orders", partition, Committed(5, -1, "", 0)) for partition in (-1, INT32_MIN, 1)))
    (group,) = coordinated_groups(rig.node.broker)
    add_lags(rig.node.broker, lag := TopicLag("g", "orders"), group.offsets.topics["orders"].items())
    assert (sorted(group.offsets.topics["orders"]), lag.elsewhere) == ([0, 1], [])
    (line,) = refusals(rig)
    assert line["records"] == 2
    assert "-1" in line["first"]


def test_lag_leaves_out_offsets_of_an_earlier_topic_of_the_name():
    rig = make_rig()
    rig.produce("orders", [b"new"] * 9)
    earlier = offset_record("g", "orders", 0, Committed(5, -1, "", 0, topic_id=uuid.UUID(int=7)))
    load(rig, earlier, offset_record("g", "orders", 1, Committed(0, -1, "", 0)))
    (group,) = coordinated_groups(rig.node.broker)
    add_lags(rig.node.broker, lag := TopicLag("g", "orders"), group.offsets.topics["orders"].items())
    assert lag.messages == 0


def test_classic_group_in_last_generation_begins_again_with_one():
    rig = make_rig()
    load(rig, classic_record(INT32_MAX))
    joined = rig.begin(11, 9, **ask.join_fields(9, "g", "m"))
    rig.run_for(1_000)
    assert (joined.answer.error_code, joined.answer.generation_id) == (NONE, 1)
    assert refusals(rig) == []


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (classic_record(-1), "the number is -1"),
        (classic_record(members=(("m", None), ("m", None))), "member id"),
        (classic_record(members=(("m", "i"), ("n", "i"))), "instance id"),
        (classic_record(protocol=None), "without a protocol"),
        (classic_record(protocol_type=""), "without a protocol"),
    ],
)
def test_classic_group_with_values_out_of_range_is_refused_with_one_line(record, reason):
    rig = make_rig()
    load(rig, record)
    (line,) = refusals(rig)
    assert reason in line["first"]
    assert ask.join(rig).error_code == NONE


def test_consumer_group_in_last_epoch_ends_with_its_sessions_and_begins_again():
    rig = make_rig()
    load(rig, *consumer_records(INT32_MAX, INT32_MAX, INT32_MAX))
    first = begin_heartbeat(rig, "n", 0)
    rig.run_for(100)
    assert first.answer.error_code == ErrorCode.coordinator_not_available, "clients retry this"
    rig.run_for(46_000)
    second = begin_heartbeat(rig, "n", 0)
    rig.run_for(100)
    assert (second.answer.error_code, second.answer.member_epoch) == (NONE, 2)
    assert describe(rig).group_epoch == 2


def test_consumer_group_with_target_of_a_later_epoch_computes_it_again():
    rig = make_rig()
    load(rig, *consumer_records(5, INT32_MAX, 5))
    begin_heartbeat(rig, "n", 0)
    rig.run_for(100)
    assert (describe(rig).group_epoch, describe(rig).assignment_epoch) == (6, 6)


@pytest.mark.parametrize(
    "records",
    [
        consumer_records(-1, 1, 1),
        consumer_records(1, -1, 1),
        consumer_records(1, 1, -3),
        consumer_records(1, 1, 1, ClassicMetadata(10_000)),
    ],
)
def test_consumer_group_record_out_of_range_is_refused_with_one_line(records):
    rig = make_rig()
    load(rig, *records)
    (line,) = refusals(rig)
    assert line["records"] == 1
    ask_everything(rig, 1)


def test_group_recorded_with_both_protocols_is_loaded_with_one_of_them():
    rig = make_rig()
    load(rig, classic_record(), *consumer_records(1, 1, 1))
    (line,) = refusals(rig)
    assert "one name" in line["first"]
    ask_everything(rig, 1)


@settings(max_examples=25, deadline=None)
@given(EXTREMES, st.tuples(EXTREMES, EXTREMES), st.sampled_from([None, "m", "gone"]), st.booleans())
def test_no_classic_group_record_makes_a_request_fail(generation, timeouts_ms, leader, is_static):
    rig = make_rig()
    members = (("m", "i" if is_static else None), ("n", None))
    load(rig, classic_record(generation, members=members, timeouts_ms=timeouts_ms, leader=leader))
    ask_everything(rig, generation)


@settings(max_examples=25, deadline=None)
@given(EXTREMES, EXTREMES, EXTREMES, EXTREMES)
def test_no_consumer_group_record_makes_a_request_fail(epoch, target, member, previous):
    rig = make_rig()
    load(rig, *consumer_records(epoch, target, member, previous=previous))
    ask_everything(rig, member)
