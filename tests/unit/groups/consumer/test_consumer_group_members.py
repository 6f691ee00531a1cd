"""Members of a consumer group: they join and share, leave, go for a while, or fall silent."""

from typing import Any

import pytest

from tests.unit.groups.consumer.group_model import DESCRIBE, Coordinator, Topics, assigned, decoded, parts, topic_id
from tests.unit.groups.consumer.refusals import refused
from yak.errors import ErrorCode
from yak.groups.consumer.description import described
from yak.groups.consumer.group import ConsumerGroup
from yak.groups.consumer.member import MemberState
from yak.groups.consumer.partitions import NO_PARTITIONS
from yak.groups.consumer.records import decode

# ------------------------------------------------------------------------------------------------------ joining


def test_the_first_member_gets_all(one):
    answer = one.join("a", "t")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.none, "a", 2)
    assert answer.heartbeat_interval.total_seconds() == 5
    assert assigned(answer) == parts("t", 0, 1, 2, 3)
    assert one.group.state.state_name == "Stable"
    assert one.group.state.epoch == 2


def test_heartbeat_without_changes_writes_nothing_and_returns_no_assignment(one):
    one.join("a", "t")
    written = len(one.log)
    answer = one.heartbeat("a", 2)
    assert (answer.member_epoch, answer.assignment) == (2, None)
    assert one.heartbeat("a", 2, owned=parts("t", 0, 1, 2, 3)).assignment is None
    assert len(one.log) == written


def test_full_heartbeat_request_receives_the_assignment_again(one):
    one.join("a", "t")
    said: dict[str, Any] = {"topics": ["t"], "owned": parts("t", 0), "rebalance_timeout_ms": 60_000}
    assert assigned(one.heartbeat("a", 2, **said)) == parts("t", 0, 1, 2, 3)
    for left_out in said:
        part = {name: value for name, value in said.items() if name != left_out}
        assert one.heartbeat("a", 2, **part).assignment is None


def test_a_second_member_waits_until_the_first_gave_back(one):
    one.join("a", "t")
    answer = one.join("b", "t")
    assert (answer.member_epoch, assigned(answer)) == (3, NO_PARTITIONS)
    assert one.group.state.state_name == "Reconciling"
    answer = one.heartbeat("a", 2)
    assert (answer.member_epoch, assigned(answer)) == (2, parts("t", 0, 1))
    assert one.member("a").state is MemberState.UNREVOKED_PARTITIONS
    assert one.heartbeat("b", 3).assignment is None
    assert one.heartbeat("a", 2, owned=parts("t", 0, 1, 2)).assignment is None, "it still holds one of them"
    answer = one.heartbeat("a", 2, owned=parts("t", 0, 1))
    assert (answer.member_epoch, answer.assignment) == (3, None)
    answer = one.heartbeat("b", 3)
    assert (answer.member_epoch, assigned(answer)) == (3, parts("t", 2, 3))
    assert one.group.state.state_name == "Stable"


def test_member_that_keeps_all_its_partitions_stays_stable(one):
    one.topics.put("u", 1)
    one.join("a", "t")
    one.join("b", "u")
    assert one.heartbeat("a", 2).member_epoch == 3
    assert one.member("a").state is MemberState.STABLE
    assert assigned(one.join("c", "u")) == NO_PARTITIONS
    answer = one.heartbeat("a", 3)
    assert (answer.member_epoch, answer.assignment) == (4, None)


def test_a_member_of_version_0_is_given_its_id(one):
    answer = one.heartbeat("", 0, topics=["t"], owned=frozenset(), rebalance_timeout_ms=1_000, version=0)
    assert answer.member_id == "made-by-the-coordinator"
    assert one.heartbeat("made-by-the-coordinator", 2, version=0).member_epoch == 2


def test_the_assignor_that_most_ask_for_is_used(one):
    one.topics = Topics(t=2, u=2)
    one.join("a", "t", "u", assignor="range")
    one.join("b", "t", "u")
    one.heartbeat("a", 2)
    one.heartbeat("a", 2, owned=parts("t", 0) | parts("u", 0))
    assert assigned(one.heartbeat("b", 3)) == parts("t", 1) | parts("u", 1)
    assert described(one.group.state, one.topics, one.settings.assignors[0])["assignor_name"] == "range"


def test_another_preferred_assignor_reassigns_at_once(one):
    # GroupMetadataManager.hasPreferredServerAssignorChanged of Kafka 4.4
    one.topics = Topics(t=1, u=1)
    one.join("a", "t", "u")
    one.join("b", "t", "u")
    one.heartbeat("a", 2, assignor="uniform")
    assert one.group.state.epoch == 3, "the group uses it already"
    one.heartbeat("a", 2, assignor="range")
    assert one.group.state.epoch == 4
    assert one.group.state.target_of("a") == parts("t", 0) | parts("u", 0)


# ------------------------------------------------------------------------------------------------------ leaving


def test_member_that_leaves_frees_its_partitions(one):
    one.join("a", "t")
    one.join("b", "t")
    answer = one.heartbeat("a", -1)
    assert (answer.member_id, answer.member_epoch, answer.assignment) == ("a", -1, None)
    assert "a" not in one.group.state.members
    assert one.group.state.state_name == "Assigning"
    answer = one.heartbeat("b", 3)
    assert (answer.member_epoch, assigned(answer)) == (4, parts("t", 0, 1, 2, 3))


def test_a_group_that_all_left_is_empty_and_can_be_taken_back(one):
    one.join("a", regex="t.*")
    one.heartbeat("a", -1)
    assert one.group.state.state_name == "Empty"
    state = one.group.state
    assert (state.epoch, state.target_epoch) == (3, 3), "a group without members has nothing to assign"
    assert not (state.targets)
    assert not (state.owners)
    assert not state.regexes
    for record in one.group.tombstones():
        assert record.value is None
        one.log.append(record)
    one.compact()
    one.log = [record for record in one.log if record.value is not None]
    assert one.log == [], "nothing is forgotten"


def test_tombstones_of_a_group_make_it_dead(one):
    one.join("a", "t")
    for record in one.group.tombstones():
        one.group.replay(decode(record))
    assert one.group.state.state_name == "Dead"
    assert one.group.state.is_deleted
    assert not one.group.state.members


# ----------------------------------------------------------------------------------------------- static members


def test_a_static_member_that_goes_for_a_while_keeps_all(one):
    one.join("a", "t", instance_id="i")
    one.join("b", "t", instance_id="j")
    one.heartbeat("a", 2)
    one.heartbeat("a", 2, owned=parts("t", 0, 1))
    one.heartbeat("b", 3)
    answer = one.heartbeat("a", -2, instance_id="i")
    assert (answer.member_id, answer.member_epoch) == ("a", -2)
    assert assigned(one.heartbeat("b", 3, topics=["t"], owned=parts("t", 2, 3), rebalance_timeout_ms=1)) == parts(
        "t", 2, 3
    )
    answer = one.join("a2", "t", instance_id="i")
    assert (answer.member_epoch, assigned(answer)) == (3, parts("t", 0, 1))
    assert one.group.state.epoch == 3, "no other member notices"
    assert sorted(one.group.state.members) == ["a2", "b"]


def test_an_instance_id_that_is_in_use(one):
    one.join("a", "t", instance_id="i")
    with refused(ErrorCode.unreleased_instance_id, "owned by a member"):
        one.join("a2", "t", instance_id="i")
    assert one.join("a", "t", instance_id="i").member_epoch == 2, "its own member may come back"


def test_static_member_that_was_replaced_is_fenced(one):
    one.join("a", "t", instance_id="i")
    one.heartbeat("a", -2, instance_id="i")
    one.join("a2", "t", instance_id="i")
    with refused(ErrorCode.fenced_instance_id, "fenced by member a2"):
        one.heartbeat("a", 2, instance_id="i")
    with refused(ErrorCode.fenced_instance_id):
        one.heartbeat("a", -1, instance_id="i")
    with refused(ErrorCode.unknown_member_id):
        one.heartbeat("a", 2)
    with refused(ErrorCode.unknown_member_id, "Instance id j is unknown"):
        one.heartbeat("a", 2, instance_id="j")


def test_a_static_member_that_leaves_for_good(one):
    one.join("a", "t", instance_id="i")
    assert one.heartbeat("a", -1, instance_id="i").member_epoch == -1
    assert not one.group.state.members


def test_static_member_that_leaves_temporarily_has_revoked_the_requested_partitions(one):
    one.join("a", "t", instance_id="i")
    one.join("b", "t")
    one.heartbeat("a", 2)
    one.heartbeat("a", -2, instance_id="i")
    assert assigned(one.heartbeat("b", 3)) == parts("t", 2, 3)
    answer = one.join("a2", "t", instance_id="i")
    assert (answer.member_epoch, assigned(answer)) == (3, parts("t", 0, 1))


def test_a_static_member_that_comes_back_with_other_topics(one):
    one.topics.put("u", 1)
    one.join("a", "t", instance_id="i")
    one.heartbeat("a", -2, instance_id="i")
    answer = one.join("a2", "u", instance_id="i")
    assert (answer.member_epoch, assigned(answer)) == (3, parts("u", 0))


def load_without_tombstones(one: Coordinator, first: int, end: int) -> None:
    """Load the group from its log, of which compaction took the tombstones in this part away."""
    tombstones = [record for record in one.log[first:end] if record.value is None]
    one.group = ConsumerGroup("g")
    for record in one.log:
        if record not in tombstones:
            one.group.replay(decode(record))
    one.group.loaded(one.world)


def test_member_whose_partitions_another_one_has_is_fenced_when_the_group_is_loaded(one):
    """Seed 100032: the tombstones were compacted away before this replica copied them, and the member committed again."""
    one.join("a", "t")
    joined = len(one.log)
    one.heartbeat("a", -1)
    left = len(one.log)
    one.join("b", "t")
    epoch = one.member("b").epoch
    load_without_tombstones(one, joined, left)
    assert sorted(one.group.state.members) == ["a", "b"]
    assert one.pass_time(0) == ["a"]
    assert one.member("b").assigned == parts("t", 0, 1, 2, 3)
    one.heartbeat("b", epoch, owned=parts("t", 0, 1, 2, 3))
    assert one.member("b").assigned == parts("t", 0, 1, 2, 3)


def test_static_member_survives_the_end_of_an_earlier_member_whose_tombstones_were_compacted_away(one):
    """Seed 1104843: the end of the earlier member took the instance id of the later one, which was fenced for ever."""
    one.join("b", "t")
    one.join("a", "t", instance_id="i")
    joined = len(one.log)
    one.heartbeat("a", -1, instance_id="i")
    left = len(one.log)
    one.join("a2", "t", instance_id="i")
    load_without_tombstones(one, joined, left)
    assert sorted(one.group.state.members) == ["a", "a2", "b"]
    epoch = one.member("a2").epoch
    one.pass_time(44_000)
    one.heartbeat("a2", epoch, instance_id="i", owned=NO_PARTITIONS)
    one.heartbeat("b", one.member("b").epoch, owned=NO_PARTITIONS)
    assert one.pass_time(1_000) == ["a"]
    epoch = one.heartbeat("a2", one.member("a2").epoch, instance_id="i", owned=NO_PARTITIONS).member_epoch
    assert one.heartbeat("a2", epoch, instance_id="i").error_code == ErrorCode.none
    assert one.group.state.static_member("i") is one.member("a2")


# --------------------------------------------------------------------------------------------------------- time


def test_a_silent_member_is_fenced_when_its_session_ends(one):
    one.join("a", "t")
    one.join("b", "t")
    one.pass_time(44_000)
    one.heartbeat("b", 3)
    assert one.pass_time(999) == []
    assert one.pass_time(1) == ["a"]
    assert assigned(one.heartbeat("b", 3)) == parts("t", 0, 1, 2, 3)


def test_several_that_end_together_are_one_change(one):
    for name in "abc":
        one.join(name, "t")
    epoch = one.group.state.epoch
    assert one.pass_time(45_000) == ["a", "b", "c"]
    assert one.group.state.epoch == epoch + 1
    assert one.group.next_due() is None


def test_member_that_does_not_revoke_in_time_is_fenced(one):
    one.join("a", "t", rebalance_timeout_ms=20_000)
    one.join("b", "t")
    one.heartbeat("a", 2)
    for _ in range(3):
        assert one.pass_time(6_000) == []
        one.heartbeat("a", 2, owned=parts("t", 0, 1, 2, 3))
        one.heartbeat("b", 3)
    assert one.pass_time(2_000) == ["a"]
    with refused(ErrorCode.unknown_member_id):
        one.heartbeat("a", 2)


def test_member_that_revokes_in_time_is_not_fenced(one):
    one.join("a", "t", rebalance_timeout_ms=20_000)
    one.join("b", "t")
    one.heartbeat("a", 2)
    one.pass_time(19_000)
    one.heartbeat("a", 2, owned=parts("t", 0, 1))
    assert one.pass_time(5_000) == []


def test_a_static_member_away_does_not_get_a_longer_session(one):
    one.join("a", "t", instance_id="i")
    one.pass_time(40_000)
    one.heartbeat("a", -2, instance_id="i")
    assert one.pass_time(5_000) == ["a"]


def test_members_have_a_whole_session_timeout_after_a_coordinator_failover(one):
    one.join("a", "t", rebalance_timeout_ms=10_000)
    one.join("b", "t")
    one.heartbeat("a", 2)
    one.pass_time(9_000)
    one.fail_over()
    assert one.pass_time(9_999) == []
    assert one.pass_time(1) == ["a"], "what it has to give back is due anew, too"
    assert one.pass_time(35_000) == ["b"]


def test_deadlines_that_were_not_acted_on_stay(one):
    one.join("a", "t")
    one.now_ms += 50_000
    first = one.group.on_time(one.world)
    assert first.changes
    assert one.group.on_time(one.world) == first, "the changes could not be appended"
    one.take(first)
    assert one.group.on_time(one.world).changes == []


# -------------------------------------------------------------------------------------------------- description


@pytest.mark.parametrize("version", [0, 1])
def test_a_group_is_described(one, version):
    one.join("a", "t", instance_id="i", rack_id="r")
    one.join("b", regex="t")
    one.heartbeat("a", 2)
    fields = described(one.group.state, one.topics, one.settings.assignors[0])
    fields["members"] = list(fields["members"])
    (group,) = decoded(DESCRIBE, version, {"groups": [{"error_code": ErrorCode.none, **fields}]}).groups
    assert (group.group_id, group.group_state, group.group_epoch) == ("g", "Reconciling", 3)
    assert (group.assignment_epoch, group.assignor_name) == (3, "uniform")
    first, second = group.members
    assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch) == ("a", "i", "r", 2)
    assert (first.client_id, first.client_host) == ("client", "/10.0.0.1")
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (("t",), "")
    (topic,) = first.assignment.topic_partitions
    # 2 and 3 are not revoked yet (ConsumerGroupMember.asConsumerGroupDescribeMember)
    assert (topic.topic_id, topic.topic_name, topic.partitions) == (topic_id("t"), "t", (0, 1, 2, 3))
    assert (second.subscribed_topic_names, second.subscribed_topic_regex) == ((), "t")
    assert second.assignment.topic_partitions == ()
    assert second.target_assignment.topic_partitions[0].partitions == (2, 3)
    if version == 1:
        assert (first.member_type, second.member_type) == (1, 1)
