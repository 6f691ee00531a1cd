"""TxnOffsetCommit: offsets in transactions, and what every other request makes of those that are pending."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Pending
from tests.unit.broker.groups_rig import FETCH, GroupsRig
from tests.unit.broker.requests import delete_topic
from tests.unit.broker.test_consumer_groups import heartbeat, owned, partitions
from tests.unit.broker.test_stale_coordinators import make_rig
from yak.coordination.loader import CoordinatorLoader
from yak.coordination.verification import Verification
from yak.core.placement import partition_of
from yak.groups.offsets import OFFSETS_TOPIC
from yak.ids import TopicPartition

NONE = ErrorCode.none
UNSTABLE = ErrorCode.unstable_offset_commit
API_VERSIONS, WRITE_MARKERS, TXN_COMMIT = 18, 27, 28
BY_ID = 6
"""The first version of TxnOffsetCommit with topic ids (KIP-1319)."""
P, Q = 4000, 4001


class TransactionsRig(GroupsRig):
    """Commits offsets in transactions of the producers P and Q, and ends them as a transaction coordinator does."""

    def txn_commit(
        self, offsets: dict[tuple[str, int], int], group: str = "g", **fields: Any
    ) -> dict[tuple[str, int], ErrorCode]:
        """TxnOffsetCommit: the code of each partition."""
        return self.codes_in(self.done(self.begin_txn_commit(offsets, group, **fields)))

    def codes_in(self, answer: Any) -> dict[tuple[str, int], ErrorCode]:
        """The code of each partition."""
        names = {topic.topic_id: name for name, topic in self.node.broker.image.topics.items()}

        def name(topic: Any) -> str:
            return names.get(topic.topic_id, "nothing") if hasattr(topic, "topic_id") else topic.name

        return {(name(t), p.partition_index): ErrorCode(p.error_code) for t in answer.topics for p in t.partitions}

    def begin_txn_commit(
        self,
        offsets: dict[tuple[str, int], int],
        group: str = "g",
        *,
        producer: int = P,
        epoch: int = 0,
        version: int = 3,
        metadata: str | None = "",
        **member: Any,
    ) -> Pending:
        """A TxnOffsetCommit on its way."""
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, partition), offset in offsets.items():
            one = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
            if version >= 2:
                one["committed_leader_epoch"] = 5
            topics.setdefault(topic, []).append(one)
        return self.begin(
            TXN_COMMIT,
            version,
            client=self.new_client(),
            transactional_id="t",
            group_id=group,
            producer_id=producer,
            producer_epoch=epoch,
            topics=[{**self.named(name, version), "partitions": each} for name, each in topics.items()],
            **member,
        )

    def named(self, name: str, version: int) -> dict[str, Any]:
        """A topic in a request of this version."""
        topic = self.node.broker.image.topics.get(name)
        by_id = {"topic_id": uuid.UUID(int=77) if topic is None else topic.topic_id}
        return by_id if version >= BY_ID else {"name": name}

    def code(self, group: str = "g", **member: Any) -> ErrorCode:
        """The code of a TxnOffsetCommit of one partition."""
        return self.txn_commit({("orders", 0): 1}, group, **member)["orders", 0]

    def end(self, producer: int = P, *, is_commit: bool = True, group: str = "g") -> None:
        """Write the marker that ends the producer's transaction in the group's partition."""
        marker = {
            "producer_id": producer,
            "producer_epoch": 0,
            "transaction_result": is_commit,
            "topics": [{"name": OFFSETS_TOPIC, "partition_indexes": [self.partition_of(group)]}],
            "coordinator_epoch": 0,
        }
        (answer,) = self.ask(WRITE_MARKERS, 1, markers=[marker]).markers
        assert [p.error_code for t in answer.topics for p in t.partitions] == [NONE]

    def partition_of(self, group: str) -> int:
        return partition_of(group, len(self.node.broker.image.topics[OFFSETS_TOPIC].partitions))

    def stable(self, *partitions: int, group: str = "g") -> list[int | ErrorCode]:
        """OffsetFetch with require_stable: the offset of each partition, or its error."""
        (found,) = self.fetch_groups((group, {"orders": list(partitions)}))
        assert found.error_code == NONE
        return [ErrorCode(p.error_code) if p.error_code else p.committed_offset for p in found.topics[0].partitions]

    def unstable(self, *partitions: int, group: str = "g") -> list[int]:
        """OffsetFetch without require_stable."""
        asked = {"group_id": group, "topics": [{"name": "orders", "partition_indexes": list(partitions)}]}
        (found,) = self.ask(FETCH, 8, groups=[asked]).groups
        return [each.committed_offset for each in found.topics[0].partitions]


class Verifier:
    """A transaction coordinator that answers `code`, after `wait_ms`."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.code = NONE
        self.wait_ms = 0


@pytest.fixture
def verifier(monkeypatch: pytest.MonkeyPatch) -> Verifier:
    made = Verifier()

    def verify(self: Verification, *question: Any) -> None:
        *words, then = question
        made.asked.append(tuple(words))
        if made.wait_ms:
            self._context.timers.arm(made, self._context.clock.now_ms + made.wait_ms, lambda: then(made.code))
        else:
            then(made.code)

    monkeypatch.setattr(Verification, "verify", verify)
    return made


@pytest.fixture
def rig(verifier: Verifier) -> TransactionsRig:
    del verifier
    return TransactionsRig()


@pytest.mark.parametrize("version", range(7))
def test_offsets_count_when_the_transaction_commits_in_every_version(rig, version):
    rig.commit({("orders", 0): 3})
    assert rig.txn_commit({("orders", 0): 7, ("orders", 1): 8}, version=version) == {
        ("orders", 0): NONE,
        ("orders", 1): NONE,
    }
    assert rig.unstable(0, 1, 2) == [3, -1, -1]
    assert rig.stable(0, 1, 2) == [UNSTABLE, UNSTABLE, -1]
    rig.end()
    assert rig.stable(0, 1, 2) == [7, 8, -1]
    (found,) = rig.fetch_groups(("g", {"orders": [0]}))
    assert found.topics[0].partitions[0].committed_leader_epoch == (5 if version >= 2 else -1)


def test_offsets_of_an_aborted_transaction_are_dropped(rig):
    rig.commit({("orders", 0): 3})
    rig.txn_commit({("orders", 0): 7, ("orders", 1): 8})
    rig.end(is_commit=False)
    assert rig.stable(0, 1) == [3, -1]


def test_offsets_without_a_producer_id_are_committed_at_once(rig):
    rig.txn_commit({("orders", 0): 7}, producer=-1, epoch=-1)
    assert rig.stable(0) == [7]
    rig.restart_groups()
    assert rig.stable(0) == [7]


def test_fetch_of_all_offsets_lists_committed_ones_and_marks_the_unstable(rig):
    rig.commit({("orders", 0): 3, ("orders", 3): 4})
    rig.txn_commit({("orders", 0): 7, ("orders", 1): 8})
    (found,) = rig.fetch_groups(("g", None))
    assert [(p.partition_index, p.committed_offset, p.error_code) for p in found.topics[0].partitions] == [
        (0, -1, UNSTABLE),
        (3, 4, 0),
    ]


@pytest.mark.parametrize(("name", "offset"), [("librdkafka", -1000), ("apache-kafka-java", -1)])
def test_unstable_partition_has_the_offset_that_librdkafka_queries_again(rig, name, offset):
    """With -1, librdkafka would begin at `auto.offset.reset` if its assignment has changed since the request."""
    rig.commit({("orders", 0): 3})
    rig.txn_commit({("orders", 0): 7})
    rig.ask(API_VERSIONS, 3, client_software_name=name, client_software_version="2.16.0")
    (found,) = rig.fetch_groups(("g", {"orders": [0]}))
    assert [(p.committed_offset, p.error_code) for p in found.topics[0].partitions] == [(offset, UNSTABLE)]


def test_transactions_of_two_producers_end_apart_and_the_later_record_wins(rig):
    rig.txn_commit({("orders", 0): 1}, producer=P)
    rig.txn_commit({("orders", 0): 2, ("orders", 1): 2}, producer=Q)
    rig.end(Q)
    assert rig.stable(0, 1) == [UNSTABLE, 2]
    rig.end(P)
    assert rig.stable(0, 1) == [2, 2]


@pytest.mark.parametrize("is_commit", [True, False])
def test_restart_in_a_transaction_keeps_the_pending_offsets(rig, is_commit):
    rig.commit({("orders", 0): 3})
    rig.txn_commit({("orders", 0): 7, ("orders", 1): 8})
    rig.txn_commit({("orders", 2): 9}, producer=Q)
    rig.commit({("orders", 1): 5})
    rig.end(Q)
    rig.restart_groups()
    assert rig.stable(0, 1, 2) == [UNSTABLE, UNSTABLE, 9]
    assert rig.unstable(0, 1) == [3, 5]
    rig.end(is_commit=is_commit)
    expected = [7 if is_commit else 3, 5, 9]
    assert rig.stable(0, 1, 2) == expected
    rig.restart_groups()
    assert rig.stable(0, 1, 2) == expected


def test_marker_during_loading_counts_after_it(rig, monkeypatch):
    rig.txn_commit({("orders", 0): 7})
    rig.txn_commit({("orders", 1): 8}, producer=Q)
    resume = CoordinatorLoader.resume
    with monkeypatch.context() as patch:

        def resume_later(self: CoordinatorLoader) -> None:
            self._context.timers.arm(self, self._context.clock.now_ms + 5_000, lambda: resume(self))

        patch.setattr(CoordinatorLoader, "resume", resume_later)
        rig.restart()
        rig.run_for(500)
        assert rig.code() == ErrorCode.coordinator_load_in_progress
        assert rig.code(version=1) == ErrorCode.coordinator_not_available
        rig.end(P)
        rig.end(Q, is_commit=False)
    rig.begin_groups()
    assert rig.stable(0, 1) == [7, -1]
    for coordinated in rig.node.broker.group_coordinator.runtime.coordinated.values():
        assert coordinated.shard.transactions == {}
        assert coordinated.shard.late_markers == []


def test_errors_of_partitions(rig):
    unknown = ErrorCode.unknown_topic_or_partition
    asked = {("orders", 0): 1, ("orders", 9): 1, ("nothing", 0): 1}
    assert rig.txn_commit(asked) == {("orders", 0): NONE, ("orders", 9): unknown, ("nothing", 0): unknown}
    by_id = {("orders", 0): NONE, ("orders", 9): unknown, ("nothing", 0): ErrorCode.unknown_topic_id}
    assert rig.txn_commit(asked, version=BY_ID) == by_id
    assert rig.txn_commit({("nothing", 0): 1}, "") == {("nothing", 0): unknown}
    assert rig.code("") == ErrorCode.invalid_group_id
    assert rig.code(metadata="m" * 4097) == ErrorCode.offset_metadata_too_large


def test_unknown_group_is_made_without_a_generation_only(rig):
    for version, error in ((5, ErrorCode.illegal_generation), (BY_ID, ErrorCode.group_id_not_found)):
        code = rig.code(generation_id=0, member_id="m", version=version)
        assert code == error
    assert rig.groups() == {}
    assert rig.code() == NONE
    assert rig.groups() == {"g": ("Empty", "classic", "")}
    rig.end(is_commit=False)
    assert rig.groups() == {}


def test_members_of_a_classic_group(rig):
    joined = rig.member("g", instance="i")
    generation, member = joined.generation_id, joined.member_id

    def code(generation: int, member: str, instance: str | None = None) -> ErrorCode:
        return rig.code(generation_id=generation, member_id=member, group_instance_id=instance)

    assert code(generation, member) == NONE
    assert code(generation, member, "i") == NONE
    assert code(generation + 1, member) == ErrorCode.illegal_generation
    assert code(-1, member) == ErrorCode.illegal_generation
    assert code(generation, "nobody") == ErrorCode.unknown_member_id
    assert code(generation, "") == ErrorCode.unknown_member_id
    assert code(generation, "other", "i") == ErrorCode.fenced_instance_id
    assert code(generation, "other", "nothing") == ErrorCode.unknown_member_id
    # producers before KIP-447 name no member
    assert code(-1, "") == NONE
    assert rig.code(version=2) == NONE


def test_commit_while_a_rebalance_completes_is_accepted(rig):
    """ClassicGroup.validateOffsetCommit does not look at the state for transactions."""
    joined = rig.join()
    member = {"generation_id": joined.generation_id, "member_id": joined.member_id}
    assert rig.code(**member) == NONE


def test_members_of_a_consumer_group(rig):
    joined = heartbeat(rig, "m1")
    assert joined.error_code == NONE

    def code(epoch: int, member: str, version: int = 3) -> ErrorCode:
        return rig.code(generation_id=epoch, member_id=member, version=version)

    assert code(joined.member_epoch, "m1") == NONE
    for wrong in (joined.member_epoch + 1, joined.member_epoch - 1):
        assert code(wrong, "m1") == ErrorCode.illegal_generation
        assert code(wrong, "m1", BY_ID) == ErrorCode.stale_member_epoch
    assert code(joined.member_epoch, "m2") == ErrorCode.unknown_member_id
    assert code(-1, "") == NONE
    assert rig.code(version=0) == NONE


def test_older_member_epoch_is_enough_for_partitions_that_the_member_still_has(rig):
    epoch = heartbeat(rig, "m1").member_epoch
    member = {"generation_id": epoch, "member_id": "m1"}
    heartbeat(rig, "m2")
    kept = partitions(heartbeat(rig, "m1", epoch))
    assert heartbeat(rig, "m1", epoch, owned=owned(rig, *kept)).member_epoch == epoch + 1
    lost = next(index for index in range(4) if index not in kept)
    for version, stale in ((5, ErrorCode.illegal_generation), (BY_ID, ErrorCode.stale_member_epoch)):
        assert rig.txn_commit({("orders", kept[0]): 1}, version=version, **member) == {("orders", kept[0]): NONE}
        both = {("orders", kept[0]): 2, ("orders", lost): 2}
        assert rig.txn_commit(both, version=version, **member) == dict.fromkeys(both, stale)


def test_older_epoch_of_the_producer_is_refused(rig):
    assert rig.code(epoch=3) == NONE
    assert rig.code(epoch=2) == ErrorCode.invalid_producer_epoch


def test_deletion_of_offsets_removes_pending_ones(rig):
    rig.commit({("orders", 0): 3})
    rig.txn_commit({("orders", 0): 7, ("orders", 1): 8, ("orders", 2): 9})
    assert rig.delete_offsets("g", {"orders": [0, 1]}) == (NONE, {("orders", 0): NONE, ("orders", 1): NONE})
    assert rig.stable(0, 1, 2) == [-1, -1, UNSTABLE]
    rig.restart_groups()
    assert rig.stable(0, 1, 2) == [-1, -1, UNSTABLE]
    rig.end()
    assert rig.stable(0, 1, 2) == [-1, -1, 9]


def test_deletion_of_a_group_removes_pending_offsets(rig):
    rig.commit({("orders", 0): 3})
    rig.txn_commit({("orders", 0): 7, ("orders", 1): 8})
    assert rig.delete("g") == [NONE]
    assert rig.groups() == {}
    rig.restart_groups()
    assert rig.groups() == {}
    rig.end()
    assert rig.groups() == {}
    assert rig.stable(0, 1) == [-1, -1]


@pytest.mark.usefixtures("verifier")
def test_offsets_do_not_expire_while_a_transaction_is_open():
    rig = TransactionsRig(offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000")
    rig.commit({("orders", 0): 3, ("orders", 1): 4})
    rig.txn_commit({("orders", 0): 7}, "g")
    rig.txn_commit({("orders", 0): 7}, "only-pending", producer=Q)
    rig.run_for(90_000)
    assert rig.unstable(0, 1) == [3, -1]
    assert set(rig.groups()) == {"g", "only-pending"}
    rig.end(is_commit=False)
    rig.end(Q, is_commit=False, group="only-pending")
    rig.run_for(3_000)
    assert rig.groups() == {}


def test_deletion_of_a_topic_removes_pending_offsets(rig):
    rig.txn_commit({("orders", 0): 7})
    delete_topic(rig, "orders")
    assert rig.groups() == {}
    rig.end()
    rig.restart_groups()
    assert rig.groups() == {}


def test_topic_created_again_does_not_inherit_an_offset_that_was_pending(rig, monkeypatch):
    rig.txn_commit({("orders", 0): 7})
    with monkeypatch.context() as patch:
        patch.setattr(rig.node.broker.group_coordinator.expiry, "topics_deleted", lambda _names: None)
        delete_topic(rig, "orders")
        rig.create_topic("orders", partitions=4)
    rig.end()
    assert rig.committed() == {("orders", 0): (-1, "")}
    rig.restart_groups()
    assert rig.committed() == {("orders", 0): (-1, "")}


@pytest.mark.parametrize(("version", "as_produce"), [(0, 10), (3, 10), (4, 11), (5, 12)])
def test_transaction_is_verified_before_its_first_offsets(rig, verifier, version, as_produce):
    assert rig.code(version=version) == NONE
    assert rig.code(version=version) == NONE
    place = TopicPartition(OFFSETS_TOPIC, rig.partition_of("g"))
    assert verifier.asked == [(place, "t", (P, 0), as_produce)]
    rig.end()
    assert rig.code(version=version) == NONE
    assert len(verifier.asked) == 2


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.invalid_txn_state, ErrorCode.invalid_txn_state),
        (ErrorCode.invalid_producer_epoch, ErrorCode.invalid_producer_epoch),
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_load_in_progress),
    ],
)
def test_offsets_of_an_unverified_transaction_are_refused(rig, verifier, code, expected):
    verifier.code = code
    assert rig.code() == expected
    # GroupCoordinatorService.commitTransactionalOffsets verifies the transaction before the group looks at the member
    assert rig.code(member_id="x", generation_id=9) == expected
    assert rig.groups() == {}
    assert rig.code("") == ErrorCode.invalid_group_id


def test_marker_outdates_a_verification_that_is_under_way(rig, verifier):
    verifier.wait_ms = 1_000
    codes = []
    for marked in (Q, P):
        pending = rig.begin_txn_commit({("orders", 0): 1})
        rig.run_for(10)
        rig.end(marked)
        codes.append(rig.codes_in(rig.done(pending, 1_500))["orders", 0])
        rig.end(P)
    assert codes == [NONE, ErrorCode.coordinator_load_in_progress]
    assert rig.stable(0) == [1]


@pytest.mark.parametrize(("version", "questions"), [(4, 0), (5, 1)])
def test_verification_that_is_disabled_leaves_protocol_2(verifier, version, questions):
    rig = TransactionsRig(transaction_partition_verification_enable="false")
    assert rig.code(version=version) == NONE
    assert len(verifier.asked) == questions


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_in_a_transaction_of_the_coordinator(version, is_commit):
    rig = TransactionsRig()
    while rig.ask(10, 3, key="t", key_type=1).error_code != NONE:
        rig.run_for(50)
    rig.run_for(100)
    timeout = dt.timedelta(minutes=1)
    made = rig.ask(22, 4, transactional_id="t", transaction_timeout=timeout, producer_id=-1, producer_epoch=-1)
    producer = {"producer": made.producer_id, "epoch": made.producer_epoch}
    identity = {"transactional_id": "t", "producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
    if version == 3:
        assert rig.code(version=3, **producer) == ErrorCode.invalid_txn_state
        assert rig.ask(25, 3, group_id="g", **identity).error_code == NONE
    assert rig.txn_commit({("orders", 0): 7}, version=version, **producer) == {("orders", 0): NONE}
    assert rig.stable(0) == [UNSTABLE]
    assert rig.ask(26, 5 if version == 5 else 3, committed=is_commit, **identity).error_code == NONE
    rig.run_for(200)
    assert rig.stable(0) == [7 if is_commit else -1]


@pytest.mark.usefixtures("verifier")
@pytest.mark.parametrize("is_commit", [True, False])
def test_next_coordinator_has_the_pending_offsets(is_commit):
    rig = make_rig()
    first = rig.leader(OFFSETS_TOPIC)
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    answer = rig.ask(
        first,
        TXN_COMMIT,
        1,
        transactional_id="t",
        group_id="g",
        producer_id=P,
        producer_epoch=0,
        topics=[{"name": "orders", "partitions": [partition]}],
    )
    assert answer.topics[0].partitions[0].error_code == NONE
    rig.nodes[first - 1].kill()
    rig.run_until(lambda: rig.leader(OFFSETS_TOPIC) not in (first, -1))
    rig.run_for(1_000)

    def stable() -> tuple[int, ErrorCode]:
        asked = {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}
        (found,) = rig.ask(rig.leader(OFFSETS_TOPIC), FETCH, 8, groups=[asked], require_stable=True).groups
        assert found.error_code == NONE
        return found.topics[0].partitions[0].committed_offset, found.topics[0].partitions[0].error_code

    assert stable() == (-1, UNSTABLE)
    marker = {
        "producer_id": P,
        "producer_epoch": 0,
        "transaction_result": is_commit,
        "topics": [{"name": OFFSETS_TOPIC, "partition_indexes": [0]}],
        "coordinator_epoch": 0,
    }
    rig.ask(rig.leader(OFFSETS_TOPIC), WRITE_MARKERS, 1, markers=[marker])
    assert stable() == (7 if is_commit else -1, NONE)
