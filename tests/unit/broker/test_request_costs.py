"""What one request may cost a broker: each is answered for what it names once, and makes no more than can be kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.group_requests import COMMIT, DESCRIBE
from tests.unit.broker.groups_rig import GroupsRig
from tests.unit.broker.test_consumer_groups import heartbeat
from tests.unit.noted_calls import note_calls
from yak.broker.apis import describe_topic_partitions
from yak.broker.apis.delete_records import DelayedDeleteRecords
from yak.coordination import group_coordinator
from yak.groups.offsets import OFFSETS_TOPIC
from yak.ids import TopicPartition
from yak.limits import GROUP_STRING_BYTES_MAX
from yak.transactions.transaction import BY_LABEL

NONE = ErrorCode.none
LONG_ID = "g" * GROUP_STRING_BYTES_MAX
COUNT = 1_000


@pytest.fixture
def rig() -> GroupsRig:
    return GroupsRig()


def commit_fields(group: str, count: int) -> dict[str, Any]:
    """The same partition again and again."""
    row = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    return {"group_id": group, "member_id": "", "topics": [{"name": "orders", "partitions": [row] * count}]}


def offsets_logs(rig: GroupsRig) -> list[Any]:
    partitions = rig.node.broker.partitions
    return [each.log for where, each in partitions.items() if where.topic == OFFSETS_TOPIC]


def test_commit_under_a_long_group_id_makes_no_more_records_than_a_batch_holds(rig, monkeypatch):
    made = note_calls(monkeypatch, group_coordinator, "offset_record")
    answer = rig.ask(COMMIT, 9, **commit_fields(LONG_ID, COUNT))
    assert {each.error_code for each in answer.topics[0].partitions} == {ErrorCode.unknown_server_error}
    assert len(made) <= 1_048_588 // GROUP_STRING_BYTES_MAX + 1
    assert LONG_ID not in rig.groups()
    assert rig.ask(COMMIT, 9, **commit_fields("short", COUNT)).topics[0].partitions[0].error_code == NONE


def test_offset_that_is_named_again_and_again_is_deleted_by_one_record(rig):
    rig.commit({("orders", 0): 7}, LONG_ID)
    (log,) = [each for each in offsets_logs(rig) if each.log_end_offset]
    end_offset = log.log_end_offset
    topics = [{"name": "orders", "partitions": [{"partition_index": 0}] * COUNT}]
    answer = rig.ask(47, 0, group_id=LONG_ID, topics=topics)
    assert answer.error_code == NONE
    assert len(answer.topics[0].partitions) == COUNT
    assert log.log_end_offset == end_offset + 1
    assert rig.committed(LONG_ID) == {}


def test_group_that_is_named_again_and_again_is_described_once(rig):
    rig.member("classic")
    assert heartbeat(rig, "m", group="new").error_code == NONE
    classic = rig.ask(DESCRIBE, 5, groups=["classic", "none", "classic"])
    assert [each.group_id for each in classic.groups] == ["classic", "none"]
    new = rig.ask(69, 1, group_ids=["new", "none", "new"])
    assert [each.group_id for each in new.groups] == ["new", "none"]


def test_offsets_of_a_group_that_is_named_again_and_again_are_fetched_once(rig):
    rig.commit({("orders", 0): 7}, "g")
    found = rig.fetch_groups(("g", None), ("other", None), ("g", None), ("g", {"orders": [0]}))
    assert [(each.group_id, len(each.topics)) for each in found] == [("g", 1), ("other", 0), ("g", 1)]


def test_offsets_are_fetched_once_for_different_members_of_one_group(rig):
    rig.commit({("orders", 0): 7}, "g")
    asked = [{"group_id": "g", "member_id": f"m{number}", "member_epoch": 0, "topics": None} for number in range(3)]
    assert len(rig.ask(9, 9, groups=asked).groups) == 1


def test_transaction_and_partition_that_are_named_again_and_again_are_described_once(rig):
    found = rig.ask(65, 0, transactional_ids=["t", "u", "t"]).transaction_states
    assert [each.transactional_id for each in found] == ["t", "u"]
    topics = [{"name": "orders", "partition_indexes": [1, 0, 1]}, {"name": "orders", "partition_indexes": [0, 2]}]
    (topic,) = rig.ask(61, 0, topics=topics).topics
    assert [each.partition_index for each in topic.partitions] == [1, 0, 2]


def test_transaction_is_not_compared_with_each_producer_id_that_a_list_may_have(rig, monkeypatch):
    compared: list[object] = []

    class Compared(int):
        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return int(self) == other

        __hash__ = int.__hash__

    listed = [
        SimpleNamespace(transactional_id=f"t{number}", producer_id=Compared(number), state=BY_LABEL["Ongoing"])
        for number in range(10)
    ]
    monkeypatch.setattr(rig.node.broker.transaction_coordinator, "transactions", lambda: listed)
    wanted = list(range(5, COUNT))
    found = rig.ask(66, 1, state_filters=[], producer_id_filters=wanted, duration_filter=-1).transaction_states
    assert [each.transactional_id for each in found] == ["t5", "t6", "t7", "t8", "t9"]
    assert len(compared) <= len(listed)


def test_page_of_a_topic_describes_no_other_partitions_of_it(rig, monkeypatch):
    shown = note_calls(monkeypatch, describe_topic_partitions, "describe_partitions")
    cursor = {"topic_name": "orders", "partition_index": 1}
    page = rig.ask(75, 0, topics=[{"name": "orders"}], response_partition_limit=2, cursor=cursor)
    assert [each.partition_index for each in page.topics[0].partitions] == [1, 2]
    assert [len(partitions) for _broker, _call, _topic, partitions, *_ in shown] == [2]


class Deletions:
    """The deletions of many partitions, each with its low watermark; counts how often one is asked for."""

    def __init__(self, count: int) -> None:
        self.partitions = [Replica(TopicPartition("orders", index)) for index in range(count)]
        self.reads = 0

    def low_watermark(self, partition: Replica) -> int:
        self.reads += 1
        return partition.low_watermark

    def add(self, partition: Replica, waiting: DelayedDeleteRecords) -> None:
        """Nothing: the test notifies the request itself."""

    def leader_of(self, topic_partition: TopicPartition) -> Replica:
        return self.partitions[topic_partition.partition]


class Replica:
    """A partition."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition, self.low_watermark = topic_partition, 0


class Broker:
    """What a delayed DeleteRecords needs of a broker."""

    def __init__(self, deletions: Deletions) -> None:
        self.leadership = self.record_deletions = deletions


def deleting(count: int) -> tuple[Deletions, DelayedDeleteRecords, list[dict[str, Any]]]:
    deletions = Deletions(count)
    answers: list[dict[str, Any]] = [{"error_code": NONE, "low_watermark": -1} for _ in range(count)]
    waiting = DelayedDeleteRecords(Broker(deletions), None, 1, {})  # type: ignore[arg-type]
    waiting.hold([(each, 1, answer) for each, answer in zip(deletions.partitions, answers, strict=True)])  # type: ignore[misc]
    return deletions, waiting, answers


@pytest.mark.parametrize("is_reversed", [False, True])
def test_deletion_of_records_of_many_partitions_checks_few_when_one_is_done(is_reversed):
    deletions, waiting, answers = deleting(200)
    for partition in deletions.partitions[:: -1 if is_reversed else 1]:
        assert not waiting.is_done()
        partition.low_watermark = 1
    assert waiting.is_done()
    assert {answer["low_watermark"] for answer in answers} == {1}
    assert deletions.reads < 4 * 200


def test_deletion_of_records_that_times_out_names_the_partitions_that_are_not_done():
    deletions, waiting, answers = deleting(3)
    deletions.partitions[0].low_watermark = 1
    waiting.on_expiration()
    codes = [answer["error_code"] for answer in answers]
    assert codes == [NONE, ErrorCode.request_timed_out, ErrorCode.request_timed_out]
