"""OffsetCommit, OffsetFetch and OffsetDelete, through their own APIs, with Kafka's error codes."""

from collections import Counter
from functools import partial

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.groups_rig import COMMIT, FETCH, FIND, GroupsRig
from tests.unit.broker.requests import delete_topic
from tests.unit.noted_calls import note_calls
from yak.coordination import offset_expiry
from yak.coordination.coordinator_partitions import CoordinatorPartitions
from yak.coordination.loader import CoordinatorLoader
from yak.coordination.offset_expiry import OffsetExpiry
from yak.errors import PeerError
from yak.groups.offsets import Committed, Offsets
from yak.limits import GROUP_STRING_BYTES_MAX, SLICE_ELEMENTS

NONE = ErrorCode.none
UNKNOWN = ErrorCode.unknown_topic_or_partition


@pytest.fixture
def rig() -> GroupsRig:
    return GroupsRig()


def test_committed_offset_is_fetched_with_its_metadata_and_leader_epoch(rig):
    assert rig.commit({("orders", 0): (7, "words"), ("orders", 1): (8, "")}) == {
        ("orders", 0): NONE,
        ("orders", 1): NONE,
    }
    (found,) = rig.fetch_groups(("g", {"orders": [0, 1, 2]}))
    assert [
        (each.partition_index, each.committed_offset, each.committed_leader_epoch, each.metadata, each.error_code)
        for each in found.topics[0].partitions
    ] == [(0, 7, 5, "words", 0), (1, 8, 5, "", 0), (2, -1, -1, "", 0)]


def test_no_metadata_comes_back_as_an_empty_text(rig):
    rig.commit({("orders", 0): (7, None)})
    assert rig.committed() == {("orders", 0): (7, "")}


def test_topic_ids_stand_for_names_from_version_10_on(rig):
    topic_id = rig.node.broker.image.topics["orders"].topic_id
    row = {"partition_index": 1, "committed_offset": 4, "committed_metadata": "by id"}
    other = topic_id.__class__(int=99)
    topics = [{"topic_id": each, "partitions": [row]} for each in (topic_id, other)]
    answer = rig.ask(COMMIT, 10, group_id="g", topics=topics)
    assert [t.partitions[0].error_code for t in answer.topics] == [ErrorCode.unknown_topic_id, NONE]
    asked = [{"topic_id": each, "partition_indexes": [1]} for each in (topic_id, other)]
    group = {"group_id": "g", "member_id": None, "member_epoch": -1, "topics": asked}
    (found,) = rig.ask(FETCH, 10, groups=[group]).groups
    assert [(t.topic_id, t.partitions[0].committed_offset, t.partitions[0].error_code) for t in found.topics] == [
        (topic_id, 4, NONE),
        (other, -1, ErrorCode.unknown_topic_id),
    ]


def test_topics_with_an_error_follow_the_others_in_a_fetch(rig):
    """As KafkaApis.fetchOffsetsForGroup."""
    topic_id = rig.node.broker.image.topics["orders"].topic_id
    first, last = (topic_id.__class__(int=number) for number in (98, 99))
    asked = [{"topic_id": each, "partition_indexes": [1]} for each in (last, topic_id, first)]
    group = {"group_id": "g", "member_id": None, "member_epoch": -1, "topics": asked}
    (found,) = rig.ask(FETCH, 10, groups=[group]).groups
    assert [topic.topic_id for topic in found.topics] == [topic_id, last, first]


def test_several_groups_are_fetched_at_once_and_an_unknown_one_has_nothing(rig):
    rig.commit({("orders", 0): 1}, "a")
    rig.commit({("orders", 1): 2}, "b")
    a, b, nobody, nothing = rig.fetch_groups(
        ("a", None), ("b", {"orders": [0, 1]}), ("nobody", {"orders": [0], "absent": [3]}), ("nothing", None)
    )
    assert [group.group_id for group in (a, b, nobody, nothing)] == ["a", "b", "nobody", "nothing"]
    assert {group.error_code for group in (a, b, nobody, nothing)} == {NONE}
    assert [p.committed_offset for p in b.topics[0].partitions] == [-1, 2]
    assert [p.committed_offset for t in nobody.topics for p in t.partitions] == [-1, -1]
    assert {p.error_code for t in nobody.topics for p in t.partitions} == {NONE}
    assert list(nothing.topics) == []
    assert "nobody" not in rig.groups(), "a fetch made a group"


@pytest.mark.parametrize("version", [7, 9])
def test_offset_fetch_of_a_topic_without_a_name_returns_no_offset(rig, version):
    """As from Kafka: no error."""
    rig.commit({("orders", 0): 1})
    named = [{"name": name, "partition_indexes": [0]} for name in ("orders", "")]
    if version < 8:
        found = rig.ask(FETCH, version, group_id="g", topics=named, require_stable=True)
    else:
        (found,) = rig.fetch_groups(("g", {"orders": [0], "": [0]}), version=version)
    answered = [(t.name, p.committed_offset, p.error_code) for t in found.topics for p in t.partitions]
    assert answered == [("orders", 1, NONE), ("", -1, NONE)]


def test_a_commit_for_what_is_not_there_fails_for_that_alone(rig):
    places = {("orders", 0): 1, ("orders", 4): 1, ("orders", -1): 1, ("absent", 0): 1}
    assert rig.commit(places) == {
        ("orders", 0): NONE,
        ("orders", 4): UNKNOWN,
        ("orders", -1): UNKNOWN,
        ("absent", 0): UNKNOWN,
    }
    assert rig.committed() == {("orders", 0): (1, "")}
    assert rig.commit({("absent", 0): 1}, "other") == {("absent", 0): UNKNOWN}
    assert "other" not in rig.groups(), "a commit of nothing made a group"


def test_offsets_with_an_error_come_first_in_the_answer_to_a_commit(rig):
    """As KafkaApis.handleOffsetCommitRequest."""
    rig.create_topic("bills")
    places = [("bills", 0), ("orders", 0), ("orders", 9), ("orders", 1), ("absent", 0)]
    answered = rig.commit(dict.fromkeys(places, 1))
    assert list(answered) == [("orders", 9), ("orders", 0), ("orders", 1), ("absent", 0), ("bills", 0)]
    assert list(answered.values()) == [UNKNOWN, NONE, NONE, UNKNOWN, NONE]


@pytest.mark.parametrize("valid", [{}, {("orders", 1): 1}])
def test_error_of_the_member_comes_before_that_of_metadata_over_the_limit(rig, valid):
    """As GroupMetadataManager.commitOffset; a partition that does not exist has its own error still."""
    rig.member()
    refused = rig.commit({("orders", 0): (1, "x" * 4097), ("absent", 0): 1} | valid)
    expected = {("absent", 0): UNKNOWN, ("orders", 0): ErrorCode.unknown_member_id}
    assert refused == expected | dict.fromkeys(valid, ErrorCode.unknown_member_id)
    assert rig.commit({("orders", 0): (1, "x" * 4097)}, "other") == {("orders", 0): ErrorCode.offset_metadata_too_large}
    assert "other" not in rig.groups()


def test_metadata_over_the_limit_is_refused(rig):
    assert rig.commit({("orders", 0): (1, "x" * 4097), ("orders", 1): (2, "x" * 4096)}) == {
        ("orders", 0): ErrorCode.offset_metadata_too_large,
        ("orders", 1): NONE,
    }
    assert rig.committed() == {("orders", 1): (2, "x" * 4096)}


def test_the_limit_counts_characters_as_kafka_does(rig):
    assert rig.commit({("orders", 0): (1, "é" * 4096), ("orders", 1): (1, "é" * 4097)}) == {
        ("orders", 0): NONE,
        ("orders", 1): ErrorCode.offset_metadata_too_large,
    }
    assert rig.committed() == {("orders", 0): (1, "é" * 4096)}


def test_metadata_that_no_record_can_hold_is_refused():
    rig = GroupsRig(offset_metadata_max_bytes="32000")
    assert rig.commit({("orders", 0): (1, "€" * 20_000)}) == {("orders", 0): ErrorCode.offset_metadata_too_large}
    assert rig.commit({("orders", 0): (1, "€" * 10_000)}) == {("orders", 0): NONE}


def test_a_commit_by_a_stranger_names_the_topics_that_do_not_exist(rig):
    # KafkaApis.handleOffsetCommitRequest looks the topics up before the coordinator looks the member up
    rig.member()
    unknown = {("gone", 0): UNKNOWN, ("orders", 9): UNKNOWN}
    offsets = {("orders", 0): 1, ("gone", 0): 1, ("orders", 9): 1}
    assert rig.commit(offsets, member="x", generation=1) == unknown | {("orders", 0): ErrorCode.unknown_member_id}
    assert rig.commit(dict.fromkeys(unknown, 1), member="x", generation=1) == unknown


@pytest.mark.parametrize("version", [8, 9])
def test_only_a_member_of_the_present_generation_commits(rig, version):
    gone = ErrorCode.group_id_not_found if version >= 9 else ErrorCode.illegal_generation
    place = ("orders", 0)

    def code(**who: object) -> ErrorCode:
        return rig.commit({place: 1}, version=version, **who)[place]

    assert code(member="m", generation=0) == gone
    joined = rig.member()
    member, generation = joined.member_id, joined.generation_id
    assert code(member=member, generation=generation) == NONE
    assert code(member=member, generation=generation - 1) == ErrorCode.illegal_generation
    assert code(member=member, generation=generation + 1) == ErrorCode.illegal_generation
    assert code(member=member, generation=-1) == ErrorCode.illegal_generation
    assert code(member="stranger", generation=generation) == ErrorCode.unknown_member_id
    assert code(member="", generation=-1) == ErrorCode.unknown_member_id
    assert code(member=member, generation=generation, instance="none") == ErrorCode.unknown_member_id
    rig.leave("g", (member, None))
    assert code(member=member, generation=generation) == ErrorCode.unknown_member_id
    assert code(member="", generation=-1) == NONE, "a group without members: an administrator commits"


def test_a_fenced_static_member_does_not_commit(rig):
    first = rig.member(instance="i")
    second = rig.join(instance="i")
    assert second.member_id != first.member_id
    who = {"generation": first.generation_id, "instance": "i"}
    assert rig.commit({("orders", 0): 1}, member=first.member_id, **who) == {
        ("orders", 0): ErrorCode.fenced_instance_id
    }
    assert rig.commit({("orders", 0): 1}, member=second.member_id, **who) == {("orders", 0): NONE}


def test_no_member_commits_while_members_wait_for_their_assignment(rig):
    joined = rig.join()
    who = {"member": joined.member_id, "generation": joined.generation_id}
    assert rig.commit({("orders", 0): 1}, **who) == {("orders", 0): ErrorCode.rebalance_in_progress}
    rig.done(rig.begin_sync(joined))
    assert rig.commit({("orders", 0): 1}, **who) == {("orders", 0): NONE}
    rig.begin_join(version=3)
    rig.run_for(10)
    assert rig.heartbeat("g", joined.member_id, joined.generation_id) == ErrorCode.rebalance_in_progress
    assert rig.commit({("orders", 0): 2}, **who) == {("orders", 0): NONE}, "it still may, while others join"


def test_the_empty_group_id_commits_and_fetches_as_in_kafka(rig):
    assert rig.commit({("orders", 0): 5}, "") == {("orders", 0): NONE}
    assert rig.committed("") == {("orders", 0): (5, "")}
    assert rig.describe("").group_state == "Empty"
    assert rig.delete("") == [NONE]
    assert rig.committed("") == {}


def test_an_endless_group_id_is_refused_everywhere(rig):
    endless = "x" * 65_000
    assert rig.commit({("orders", 0): 5}, endless) == {("orders", 0): ErrorCode.invalid_group_id}
    (found,) = rig.fetch_groups((endless, {"orders": [0]}))
    assert found.error_code == ErrorCode.invalid_group_id
    assert rig.delete(endless) == [ErrorCode.invalid_group_id]
    assert rig.describe(endless).error_code == ErrorCode.invalid_group_id
    assert rig.leave(endless, ("m", None)).error_code == ErrorCode.invalid_group_id
    assert rig.heartbeat(endless, "m", 1) == ErrorCode.invalid_group_id
    shorter = "x" * 32_767  # all that the older versions have room for
    assert rig.join(shorter).error_code == rig.join("").error_code == ErrorCode.invalid_group_id
    assert rig.ask(FIND, 3, key=shorter).error_code == ErrorCode.invalid_group_id
    assert rig.delete_offsets(shorter, {"orders": [0]})[0] == ErrorCode.invalid_group_id
    longest = "y" * 32_000
    assert rig.commit({("orders", 0): 5}, longest) == {("orders", 0): NONE}
    rig.restart_groups()
    assert rig.committed(longest) == {("orders", 0): (5, "")}


# ---------------------------------------------------------------------------------------------------- OffsetDelete


def test_offsets_are_deleted_where_no_member_consumes(rig):
    rig.create_topic("other")
    rig.commit({("orders", 0): 1, ("orders", 1): 2, ("other", 0): 3})
    assert rig.delete_offsets("g", {"orders": [0, 3, 9], "absent": [0]}) == (
        NONE,
        {("orders", 0): NONE, ("orders", 3): NONE, ("orders", 9): UNKNOWN, ("absent", 0): UNKNOWN},
    )
    assert rig.committed() == {("orders", 1): (2, ""), ("other", 0): (3, "")}
    rig.restart_groups()
    assert rig.committed() == {("orders", 1): (2, ""), ("other", 0): (3, "")}


def test_group_without_members_whose_last_offset_was_deleted_stays_until_the_next_check():
    """OffsetMetadataManager.replay leaves the group to GroupCoordinatorShard.cleanupGroupMetadata."""
    rig = GroupsRig(offsets_retention_check_interval_ms="10000")
    rig.commit({("orders", 0): 1})
    assert rig.delete_offsets("g", {"orders": [0]}) == (NONE, {("orders", 0): NONE})
    assert rig.groups() == {"g": ("Empty", "classic", "")}
    assert rig.describe("g").group_state == "Empty"
    assert rig.delete_offsets("g", {"orders": [0]}) == (NONE, {("orders", 0): NONE})
    rig.run_for(10_000)
    assert rig.groups() == {}
    assert rig.delete_offsets("g", {"orders": [0]}) == (ErrorCode.group_id_not_found, {})


def test_offsets_of_a_topic_that_a_member_consumes_are_not_deleted(rig):
    rig.create_topic("other")
    rig.commit({("orders", 0): 1, ("other", 0): 2})
    rig.member()
    assert rig.delete_offsets("g", {"orders": [0], "other": [0]}) == (
        NONE,
        {("orders", 0): ErrorCode.group_subscribed_to_topic, ("other", 0): NONE},
    )
    assert rig.committed() == {("orders", 0): (1, "")}


def test_partitions_that_do_not_exist_come_first_in_the_answer_to_a_deletion(rig):
    """As KafkaApis.handleOffsetDeleteRequest."""
    rig.create_topic("bills")
    rig.commit({("orders", 0): 1, ("bills", 0): 1})
    _, answered = rig.delete_offsets("g", {"bills": [0], "orders": [0, 9, 1], "absent": [0]})
    assert list(answered) == [("orders", 9), ("orders", 0), ("orders", 1), ("absent", 0), ("bills", 0)]
    assert list(answered.values()) == [UNKNOWN, NONE, NONE, UNKNOWN, NONE]


def test_offsets_are_not_deleted_while_the_group_subscription_is_unknown(rig):
    """ClassicGroup.isSubscribedToTopic: a group of consumers whose words nobody understands may consume everything."""
    rig.commit({("orders", 0): 1})
    rig.member(protocols={"range": b"\0"})
    assert rig.delete_offsets("g", {"orders": [0]}) == (NONE, {("orders", 0): ErrorCode.group_subscribed_to_topic})


def test_offsets_of_other_kinds_of_groups_are_not_deleted_while_they_have_members(rig):
    rig.commit({("orders", 0): 1})
    rig.member(kind="connect", protocols={"default": b"x"})
    assert rig.delete_offsets("g", {"orders": [0]}) == (ErrorCode.non_empty_group, {})


def test_deleting_offsets_needs_a_group(rig):
    assert rig.delete_offsets("nobody", {"orders": [0]}) == (ErrorCode.group_id_not_found, {})
    assert rig.delete_offsets("", {"orders": [0]}) == (ErrorCode.invalid_group_id, {})


# ------------------------------------------------------------------------------------------------ what is forgotten


def minutes(count: int) -> int:
    return count * 60_000


@pytest.fixture
def forgetful() -> GroupsRig:
    return GroupsRig(offsets_retention_minutes="2", offsets_retention_check_interval_ms="1000")


def test_offsets_of_a_group_without_members_expire_after_the_retention_time(forgetful):
    rig = forgetful
    rig.commit({("orders", 0): 1})
    rig.run_for(minutes(1))
    rig.commit({("orders", 1): 2})
    rig.run_for(minutes(1) + 2_000)
    assert rig.committed() == {("orders", 1): (2, "")}
    rig.run_for(minutes(1) + 2_000)
    assert rig.committed() == {}
    assert rig.groups() == {}
    rig.restart_groups()
    assert rig.groups() == {}


@pytest.mark.parametrize("is_group_over", [True, False])
def test_offsets_of_a_long_group_id_expire_in_batches_that_the_log_takes(forgetful, is_group_over):
    group = "g" * GROUP_STRING_BYTES_MAX
    commit_beyond_a_batch(forgetful, group)
    if not is_group_over:
        forgetful.commit({("orders", 0): 1}, group, version=4, retention_ms=minutes(60))
    forgetful.run_for(minutes(3))
    assert set(forgetful.committed(group)) == (set() if is_group_over else {("orders", 0)})
    assert (group in forgetful.groups()) is not is_group_over


def commit_beyond_a_batch(rig: GroupsRig, group: str) -> set[tuple[str, int]]:
    """Offsets whose tombstones the log does not take in one batch."""
    rig.create_topic("many", partitions=40)
    for start in (0, 20):
        places = {("many", index): 1 for index in range(start, start + 20)}
        assert set(rig.commit(places, group).values()) == {NONE}
    return {("many", index) for index in range(40)}


def test_group_with_more_offsets_than_a_batch_takes_is_deleted(rig):
    group = "g" * GROUP_STRING_BYTES_MAX
    commit_beyond_a_batch(rig, group)
    assert rig.delete(group) == [NONE]
    rig.restart_groups()
    assert group not in rig.groups()


def test_more_offsets_than_a_batch_takes_are_deleted(rig):
    group = "g" * GROUP_STRING_BYTES_MAX
    commit_beyond_a_batch(rig, group)
    code, codes = rig.delete_offsets(group, {"many": list(range(40))})
    assert (code, set(codes.values())) == (NONE, {NONE})
    assert rig.committed(group) == {}


def test_deletion_that_fails_in_its_second_batch_leaves_the_offsets_that_the_log_has(rig, monkeypatch):
    """The group kept all offsets in memory, or none, while the log had some."""
    group = "g" * GROUP_STRING_BYTES_MAX
    every = commit_beyond_a_batch(rig, group)
    real, appended = CoordinatorPartitions.append, []

    def fail_second(self, *arguments):
        appended.append(None)
        if len(appended) == 2:
            raise PeerError(ErrorCode.not_enough_replicas)
        return real(self, *arguments)

    monkeypatch.setattr(CoordinatorPartitions, "append", fail_second)
    assert rig.delete(group) == [ErrorCode.coordinator_not_available]
    left = rig.committed(group)
    assert set(left) < every
    rig.restart_groups()
    assert rig.committed(group) == left != {}
    assert rig.delete(group) == [NONE]


def test_groups_of_one_partition_expire_a_few_in_a_step(forgetful, monkeypatch):
    """100,000 groups of a partition were looked at in one step."""
    monkeypatch.setattr(offset_expiry, "SLICE_ELEMENTS", 4)
    rig, seen, expire = forgetful, [], OffsetExpiry._expire
    names = [f"group-{number}" for number in range(7)]
    for name in names:
        rig.commit({("orders", 0): 1}, name)

    def noted(self, coordinated, group):
        seen.append((self._context.clock.now_ms, group.group_id))
        expire(self, coordinated, group)

    monkeypatch.setattr(OffsetExpiry, "_expire", noted)
    rig.world.run(lambda: len(seen) >= len(names), events_max=10_000)
    assert sorted(group for _ms, group in seen) == names, "each once a round"
    assert max(Counter(now_ms for now_ms, _group in seen).values()) == 2
    rig.run_for(180_000)
    assert rig.groups() == {}


@pytest.mark.parametrize("version", [2, 4])
def test_a_clients_own_retention_counts_instead(forgetful, version):
    rig = forgetful
    rig.commit({("orders", 0): 1}, version=version, retention_ms=10_000)
    rig.commit({("orders", 1): 2}, version=version, retention_ms=minutes(4))
    rig.run_for(12_000)
    assert rig.committed() == {("orders", 1): (2, "")}
    rig.restart_groups()
    rig.run_for(minutes(3))
    assert rig.committed() == {("orders", 1): (2, "")}
    rig.run_for(minutes(1))
    assert rig.committed() == {}


def test_offset_commit_with_an_absurd_retention_succeeds(rig):
    assert rig.commit({("orders", 0): 1}, version=4, retention_ms=10**15) == {("orders", 0): NONE}
    assert rig.commit({("orders", 0): 1}, version=4, retention_ms=(2**63 - 1) // 1000) == {("orders", 0): NONE}
    assert rig.committed() == {("orders", 0): (1, "")}


def test_offsets_of_a_group_with_members_stay_and_go_after_the_last_left(forgetful):
    rig = forgetful
    joined = rig.member(session_ms=60_000)
    who = {"member": joined.member_id, "generation": joined.generation_id}
    rig.commit({("orders", 0): 1}, **who)
    for _ in range(6):
        rig.run_for(30_000)
        assert rig.heartbeat("g", joined.member_id, joined.generation_id) == NONE
    assert rig.committed() == {("orders", 0): (1, "")}
    rig.leave("g", (joined.member_id, None))
    rig.run_for(minutes(1))
    assert rig.committed() == {("orders", 0): (1, "")}
    rig.restart_groups()
    assert rig.committed() == {("orders", 0): (1, "")}, "its time began when the last member left, and was remembered"
    rig.run_for(minutes(1) + 2_000)
    assert rig.committed() == {}
    assert rig.groups() == {}


def test_offsets_of_a_topic_that_is_no_longer_consumed_go_though_there_are_members(forgetful):
    rig = forgetful
    rig.create_topic("other")
    rig.commit({("orders", 0): 1, ("other", 0): 2})
    joined = rig.member(session_ms=60_000)
    for _ in range(5):
        rig.run_for(30_000)
        rig.heartbeat("g", joined.member_id, joined.generation_id)
    assert rig.committed() == {("orders", 0): (1, "")}


def test_an_empty_group_without_offsets_is_forgotten(forgetful):
    rig = forgetful
    joined = rig.member()
    rig.leave("g", (joined.member_id, None))
    assert rig.groups() == {"g": ("Empty", "classic", "consumer")}
    rig.run_for(2_000)
    assert rig.groups() == {}
    assert rig.describe("g").error_code == ErrorCode.group_id_not_found


def test_a_topic_that_is_deleted_takes_its_offsets_along(rig):
    rig.create_topic("other")
    rig.commit({("orders", 0): 1, ("other", 0): 2})
    rig.commit({("orders", 0): 1}, "only")
    delete_topic(rig, "orders")
    rig.run_for(100)
    assert rig.committed() == {("other", 0): (2, "")}
    assert rig.committed("only") == {}
    rig.create_topic("orders", partitions=4)
    assert rig.committed() == {("other", 0): (2, "")}, "a new topic of the name is no heir"
    rig.restart_groups()
    assert rig.committed() == {("other", 0): (2, "")}
    assert "only" not in rig.groups()


def test_offsets_of_a_topic_deleted_while_no_broker_coordinated_are_removed_too():
    """The tombstones could not be written: the next round finds them."""
    rig = GroupsRig(offsets_retention_check_interval_ms="1000")
    rig.commit({("orders", 0): 1})
    broker = rig.node.broker
    original, broker.group_coordinator.expiry.topics_deleted = (
        broker.group_coordinator.expiry.topics_deleted,
        lambda names: None,
    )
    delete_topic(rig, "orders")
    assert rig.committed() == {("orders", 0): (1, "")}
    broker.group_coordinator.expiry.topics_deleted = original
    rig.run_for(2_000)
    assert rig.committed() == {}


def test_offsets_of_a_topic_that_is_created_again_while_its_coordinator_loads_are_removed(rig, monkeypatch):
    """A consumer of the new topic began at the offset in the old one, and skipped records."""
    rig.create_topic("other")
    rig.commit({("orders", 0): 7, ("other", 0): 2})
    resume = CoordinatorLoader.resume
    with monkeypatch.context() as patch:
        patch.setattr(CoordinatorLoader, "resume", lambda self: self._context.after(self, 5_000, partial(resume, self)))
        rig.restart()
        delete_topic(rig, "orders")
        rig.create_topic("orders", partitions=4)
        assert rig.node.broker.group_coordinator.runtime.is_loading()
    rig.begin_groups()
    assert rig.committed() == {("other", 0): (2, "")}
    rig.restart_groups()
    assert rig.committed() == {("other", 0): (2, "")}


@pytest.mark.parametrize("is_coordinated", [True, False])
def test_topic_created_again_does_not_inherit_offsets_whose_tombstones_could_not_be_written(
    monkeypatch, is_coordinated
):
    """A consumer of the new topic began at the offset in the old one until the next check, and with it for good."""
    rig = GroupsRig(offsets_retention_check_interval_ms="60000")
    rig.create_topic("other")
    rig.commit({("orders", 0): 7, ("orders", 1): 8, ("other", 0): 2})

    def refuse(*_arguments):
        raise PeerError(ErrorCode.not_enough_replicas)

    expiry = rig.node.broker.group_coordinator.expiry
    with monkeypatch.context() as patch:
        patch.setattr(CoordinatorPartitions, "append", refuse)
        if not is_coordinated:
            patch.setattr(expiry, "topics_deleted", lambda _names: None)
        delete_topic(rig, "orders")
        rig.create_topic("orders", partitions=4)
    rig.commit({("orders", 1): 3})
    kept = {("orders", 1): (3, ""), ("other", 0): (2, "")}
    assert rig.committed() == {("orders", 0): (-1, "")} | kept
    rig.restart_groups()
    assert rig.committed() == {("orders", 0): (-1, "")} | kept
    rig.run_for(61_000)
    assert rig.committed() == kept


def test_deleted_topic_searches_the_offsets_of_groups_that_have_it_only(rig, monkeypatch):
    rig.create_topic("other")
    for number in range(20):
        rig.commit({("other", 0): 1}, f"g{number}")
    rig.commit({("orders", 0): 1}, "g7")
    searched = note_calls(monkeypatch, Offsets, "partitions")
    delete_topic(rig, "orders")
    assert len(searched) == 1
    assert rig.committed("g7") == {("other", 0): (1, "")}


def test_offsets_whose_tombstones_cannot_be_written_are_not_logged_as_expired(rig, monkeypatch):
    rig.commit({("orders", 0): 1})
    broker = rig.node.broker
    events = []
    monkeypatch.setattr(broker.context, "emit", lambda effect: events.append(getattr(effect, "event", "")))

    def refuse(*_arguments):
        raise PeerError(ErrorCode.not_enough_replicas)

    monkeypatch.setattr(CoordinatorPartitions, "append", refuse)
    delete_topic(rig, "orders")
    assert "offsets-expired" not in events
    monkeypatch.undo()
    assert rig.committed() == {("orders", 0): (1, "")}


def test_offsets_of_many_groups_of_a_deleted_topic_are_removed_some_in_each_step(rig, monkeypatch):
    names, broker = [f"g{number}" for number in range(2 * SLICE_ELEMENTS)], rig.node.broker
    offset = Committed(1, 0, "", broker.wall_ms, topic_id=broker.image.topics["orders"].topic_id)
    for name in names:
        broker.group_coordinator.of(name).shard.ensure(name).offsets.put("orders", 0, offset, 0)
    removed = note_calls(monkeypatch, Offsets, "remove")
    delete_topic(rig, "orders")
    assert 0 < len(removed) < SLICE_ELEMENTS // 4
    rig.create_topic("orders")
    rig.commit({("orders", 0): 5}, names[-1])
    rig.run_for(1_000)
    assert len(removed) == len(names) - 1
    assert list(rig.groups()) == [names[-1]], "with the offset of the new topic"


def test_times_are_taken_to_the_millisecond():
    """A float of seconds is a little less than it says for many a number of milliseconds."""
    strict = GroupsRig(group_min_session_timeout_ms="1001", group_max_session_timeout_ms="1001")
    assert strict.join(session_ms=1001).error_code == NONE
    assert strict.join("h", session_ms=1000).error_code == ErrorCode.invalid_session_timeout
    assert strict.join("h", session_ms=1002).error_code == ErrorCode.invalid_session_timeout
