import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.groups.consumer.group_model import (
    DESCRIBE,
    Coordinator,
    Topics,
    assigned,
    decoded,
    parts,
    topic_id,
)
from yak.errors import ErrorCode, PeerError
from yak.groups.consumer.member import MemberState
from yak.groups.consumer.partitions import NO_PARTITIONS
from yak.groups.consumer.records import Change, Kind, PartitionMetadataValue, RegexValue, decode, encode
from yak.groups.consumer.settings import ConsumerGroupSettings


@pytest.fixture
def one() -> Coordinator:
    return Coordinator(Topics(t=4))


@contextmanager
def refused(code: ErrorCode, words: str = "") -> Iterator[None]:
    with pytest.raises(PeerError) as raised:
        yield
    assert raised.value.error_code is code
    assert words in raised.value.message


# ------------------------------------------------------------------------------------------------------ joining


def test_the_first_member_gets_all(one: Coordinator) -> None:
    answer = one.join("a", "t")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.none, "a", 1)
    assert answer.heartbeat_interval.total_seconds() == 5
    assert assigned(answer) == parts("t", 0, 1, 2, 3)
    assert one.group.state_name == "Stable"
    assert one.group.epoch == 1


def test_a_heartbeat_without_news_writes_nothing_and_says_nothing(one: Coordinator) -> None:
    one.join("a", "t")
    written = len(one.log)
    answer = one.beat("a", 1)
    assert (answer.member_epoch, answer.assignment) == (1, None)
    assert one.beat("a", 1, owned=parts("t", 0, 1, 2, 3)).assignment is None
    assert len(one.log) == written


def test_a_full_request_is_told_the_assignment_again(one: Coordinator) -> None:
    one.join("a", "t")
    said: dict[str, Any] = {"topics": ["t"], "owned": parts("t", 0), "rebalance_timeout_ms": 60_000}
    assert assigned(one.beat("a", 1, **said)) == parts("t", 0, 1, 2, 3)
    for left_out in said:
        part = {name: value for name, value in said.items() if name != left_out}
        assert one.beat("a", 1, **part).assignment is None


def test_a_second_member_waits_until_the_first_gave_back(one: Coordinator) -> None:
    one.join("a", "t")
    answer = one.join("b", "t")
    assert (answer.member_epoch, assigned(answer)) == (2, NO_PARTITIONS)
    assert one.group.state_name == "Reconciling"
    answer = one.beat("a", 1)
    assert (answer.member_epoch, assigned(answer)) == (1, parts("t", 0, 1))
    assert one.member("a").state is MemberState.UNREVOKED_PARTITIONS
    assert one.beat("b", 2).assignment is None
    assert one.beat("a", 1, owned=parts("t", 0, 1, 2)).assignment is None, "it still holds one of them"
    answer = one.beat("a", 1, owned=parts("t", 0, 1))
    assert (answer.member_epoch, answer.assignment) == (2, None)
    answer = one.beat("b", 2)
    assert (answer.member_epoch, assigned(answer)) == (2, parts("t", 2, 3))
    assert one.group.state_name == "Stable"


def test_who_keeps_all_it_has_never_stops(one: Coordinator) -> None:
    one.topics.put("u", 1)
    one.join("a", "t")
    one.join("b", "u")
    assert one.beat("a", 1).member_epoch == 2
    assert one.member("a").state is MemberState.STABLE
    assert assigned(one.join("c", "u")) == NO_PARTITIONS
    answer = one.beat("a", 2)
    assert (answer.member_epoch, answer.assignment) == (3, None)


def test_a_member_of_version_0_is_given_its_id(one: Coordinator) -> None:
    answer = one.beat("", 0, topics=["t"], owned=frozenset(), rebalance_timeout_ms=1_000, version=0)
    assert answer.member_id == "made-by-the-coordinator"
    assert one.beat("made-by-the-coordinator", 1, version=0).member_epoch == 1


def test_a_member_that_means_no_topic_is_a_member_all_the_same(one: Coordinator) -> None:
    answer = one.join("a")
    assert (answer.member_epoch, assigned(answer)) == (1, NO_PARTITIONS)
    assert one.group.state_name == "Stable"


def test_topics_that_are_not_there_count_for_nothing_until_they_are(one: Coordinator) -> None:
    answer = one.join("a", "t", "later")
    assert assigned(answer) == parts("t", 0, 1, 2, 3)
    one.topics.put("later", 1)
    answer = one.beat("a", 1)
    assert (answer.member_epoch, assigned(answer)) == (2, parts("t", 0, 1, 2, 3) | parts("later", 0))


def test_a_topic_that_grows_is_noticed_at_the_next_heartbeat(one: Coordinator) -> None:
    one.join("a", "t")
    one.topics.put("t", 6)
    assert assigned(one.beat("a", 1)) == parts("t", *range(6))


def test_a_topic_that_is_gone_is_given_back(one: Coordinator) -> None:
    one.topics.put("u", 1)
    one.join("a", "t", "u")
    one.topics.remove("u")
    assert assigned(one.beat("a", 1)) == parts("t", 0, 1, 2, 3)
    assert one.beat("a", 1, owned=parts("t", 0, 1, 2, 3)).member_epoch == 2


def test_a_change_of_other_topics_does_not_move_the_epoch(one: Coordinator) -> None:
    one.join("a", "t")
    one.topics.put("u", 3)
    assert one.beat("a", 1).member_epoch == 1
    assert one.group.epoch == 1


def test_a_member_can_change_its_mind(one: Coordinator) -> None:
    one.topics.put("u", 2)
    one.join("a", "t")
    answer = one.beat("a", 1, topics=["u"])
    assert (answer.member_epoch, assigned(answer)) == (1, NO_PARTITIONS), "first it gives back"
    answer = one.beat("a", 1, owned=frozenset())
    assert (answer.member_epoch, assigned(answer)) == (2, parts("u", 0, 1))


def test_the_assignor_that_most_ask_for_is_used(one: Coordinator) -> None:
    one.topics = Topics(t=2, u=2)
    one.join("a", "t", "u", assignor="range")
    one.join("b", "t", "u")
    one.beat("a", 1)
    one.beat("a", 1, owned=parts("t", 0) | parts("u", 0))
    assert assigned(one.beat("b", 2)) == parts("t", 1) | parts("u", 1)
    assert one.group.describe(one.topics, one.settings)["assignor_name"] == "range"


# -------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"member_id": "", "epoch": 0}, "MemberId can't be empty"),
        ({"member_id": "", "epoch": 3, "version": 0}, "MemberId can't be empty"),
        ({"group_id": ""}, "GroupId can't be empty"),
        ({"instance_id": ""}, "InstanceId can't be empty"),
        ({"rack_id": ""}, "RackId can't be empty"),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided"),
        ({"rebalance_timeout_ms": -5}, "can't be negative"),
        ({"owned": None}, "TopicPartitions must be empty"),
        ({"owned": parts("t", 0)}, "TopicPartitions must be empty"),
        ({"topics": None}, "Either SubscribedTopicNames or SubscribedTopicRegex"),
        ({"epoch": -2}, "InstanceId can't be null"),
        ({"epoch": -3}, "MemberEpoch is invalid"),
        ({"member_id": "x" * 40_000}, "MemberId can't be longer"),
        ({"topics": ["é" * 20_000]}, "SubscribedTopicNames can't be longer"),
    ],
)
def test_requests_that_make_no_sense(one: Coordinator, said: dict[str, Any], words: str) -> None:
    sound: dict[str, Any] = {
        "member_id": "a",
        "epoch": 0,
        "topics": ["t"],
        "owned": frozenset(),
        "rebalance_timeout_ms": 1_000,
    }
    with refused(ErrorCode.invalid_request, words):
        one.beat(**{**sound, **said})
    assert one.log == []
    assert one.beat(**sound).member_epoch == 1


def test_an_assignor_that_is_not_offered(one: Coordinator) -> None:
    with refused(ErrorCode.unsupported_assignor, "Supported assignors: uniform, range"):
        one.join("a", "t", assignor="sticky")


def test_members_that_the_group_does_not_have(one: Coordinator) -> None:
    for epoch in (1, -1):
        with refused(ErrorCode.unknown_member_id):
            one.beat("a", epoch)


def test_a_full_group_takes_nobody_new() -> None:
    one = Coordinator(Topics(t=4), ConsumerGroupSettings(max_size=2))
    one.join("a", "t", instance_id="i")
    one.join("b", "t")
    with refused(ErrorCode.group_max_size_reached, "capacity of 2"):
        one.join("c", "t")
    assert one.join("b", "t").member_epoch > 0, "a member may rejoin"
    one.beat("a", -2, instance_id="i")
    assert one.join("a2", "t", instance_id="i").member_epoch > 0, "who takes another's place is not one more"


# ------------------------------------------------------------------------------------------------ member epochs


def test_epochs_that_are_not_the_members(one: Coordinator) -> None:
    one.join("a", "t")
    with refused(ErrorCode.fenced_member_epoch, "greater member epoch"):
        one.beat("a", 2)
    one.join("b", "t")
    one.beat("a", 1)
    one.beat("a", 1, owned=parts("t", 0, 1))
    assert one.member("a").epoch == 2
    one.join("c", "u")
    one.beat("a", 2)
    with refused(ErrorCode.fenced_member_epoch, "smaller member epoch"):
        one.beat("a", 1, owned=parts("t", 0))


def test_the_epoch_before_is_taken_when_the_answer_may_have_been_lost(one: Coordinator) -> None:
    one.join("a", "t")
    one.join("b", "t")
    one.beat("a", 1)
    one.beat("a", 1, owned=parts("t", 0, 1))  # the answer, with epoch 2, is lost
    assert one.beat("a", 1, owned=parts("t", 0, 1)).member_epoch == 2
    assert one.beat("a", 1, owned=parts("t", 0)).member_epoch == 2
    with refused(ErrorCode.fenced_member_epoch):
        one.beat("a", 1, owned=parts("t", 0, 1, 2))
    with refused(ErrorCode.fenced_member_epoch):
        one.beat("a", 1)


def test_an_answer_that_is_lost_while_the_member_waits_can_be_lost_again(one: Coordinator) -> None:
    one.join("a", "t")
    one.join("b", "t")
    assert one.member("b").state is MemberState.UNRELEASED_PARTITIONS
    for _ in range(3):
        assert one.beat("b", 0, topics=["t"], owned=frozenset(), rebalance_timeout_ms=1_000).member_epoch == 2
    assert one.member("b").previous_epoch == 0


@pytest.mark.parametrize("state", ["stable", "unrevoked", "unreleased"])
def test_a_fenced_member_may_come_back_with_epoch_0(one: Coordinator, state: str) -> None:
    one.join("a", "t")
    if state != "stable":
        one.join("b", "t")
        one.beat("a", 1)
    answer = one.join("b" if state == "unreleased" else "a", "t")
    if state == "stable":
        assert (answer.member_epoch, assigned(answer)) == (1, parts("t", 0, 1, 2, 3))
    elif state == "unrevoked":
        assert (answer.member_epoch, assigned(answer)) == (2, parts("t", 0, 1)), (
            "it holds nothing, so nothing is left to revoke"
        )
    else:
        assert (answer.member_epoch, assigned(answer)) == (2, NO_PARTITIONS)


def test_a_member_of_an_unknown_state_begins_anew(one: Coordinator) -> None:
    one.join("a", "t")
    current = one.member("a").current()
    one.group.replay(Change(Kind.CURRENT, "g", "a", replace(current, state=9)))
    assert one.member("a").state is MemberState.UNKNOWN
    with refused(ErrorCode.fenced_member_epoch, "does not know"):
        one.beat("a", 1)
    assert assigned(one.join("a", "t")) == parts("t", 0, 1, 2, 3)


# ------------------------------------------------------------------------------------------------------ leaving


def test_who_leaves_frees_its_partitions(one: Coordinator) -> None:
    one.join("a", "t")
    one.join("b", "t")
    answer = one.beat("a", -1)
    assert (answer.member_id, answer.member_epoch, answer.assignment) == ("a", -1, None)
    assert "a" not in one.group.state.members
    assert one.group.state_name == "Assigning"
    answer = one.beat("b", 2)
    assert (answer.member_epoch, assigned(answer)) == (3, parts("t", 0, 1, 2, 3))


def test_a_group_that_all_left_is_empty_and_can_be_taken_back(one: Coordinator) -> None:
    one.join("a", regex="t.*")
    one.beat("a", -1)
    assert one.group.state_name == "Empty"
    state = one.group.state
    assert not (state.targets)
    assert not (state.owners)
    assert not state.regexes
    for record in one.group.tombstones():
        assert record.value is None
        one.log.append(record)
    one.compact()
    one.log = [record for record in one.log if record.value is not None]
    assert one.log == [], "nothing is forgotten"


def test_tombstones_of_a_group_make_it_dead(one: Coordinator) -> None:
    one.join("a", "t")
    for record in one.group.tombstones():
        one.group.replay(decode(record))
    assert one.group.state_name == "Dead"
    assert one.group.is_deleted
    assert one.group.is_empty


# ------------------------------------------------------------------------------------------------ static members


def test_a_static_member_that_goes_for_a_while_keeps_all(one: Coordinator) -> None:
    one.join("a", "t", instance_id="i")
    one.join("b", "t", instance_id="j")
    one.beat("a", 1)
    one.beat("a", 1, owned=parts("t", 0, 1))
    one.beat("b", 2)
    answer = one.beat("a", -2, instance_id="i")
    assert (answer.member_id, answer.member_epoch) == ("a", -2)
    assert assigned(one.beat("b", 2, topics=["t"], owned=parts("t", 2, 3), rebalance_timeout_ms=1)) == parts("t", 2, 3)
    answer = one.join("a2", "t", instance_id="i")
    assert (answer.member_epoch, assigned(answer)) == (2, parts("t", 0, 1))
    assert one.group.epoch == 2, "nobody else notices"
    assert sorted(one.group.state.members) == ["a2", "b"]


def test_an_instance_id_that_is_in_use(one: Coordinator) -> None:
    one.join("a", "t", instance_id="i")
    with refused(ErrorCode.unreleased_instance_id, "owned by a member"):
        one.join("a2", "t", instance_id="i")
    assert one.join("a", "t", instance_id="i").member_epoch == 1, "its own member may come back"


def test_who_was_replaced_is_fenced(one: Coordinator) -> None:
    one.join("a", "t", instance_id="i")
    one.beat("a", -2, instance_id="i")
    one.join("a2", "t", instance_id="i")
    with refused(ErrorCode.fenced_instance_id, "fenced by member a2"):
        one.beat("a", 1, instance_id="i")
    with refused(ErrorCode.fenced_instance_id):
        one.beat("a", -1, instance_id="i")
    with refused(ErrorCode.unknown_member_id):
        one.beat("a", 1)
    with refused(ErrorCode.unknown_member_id, "Instance id j is unknown"):
        one.beat("a", 1, instance_id="j")


def test_a_static_member_that_leaves_for_good(one: Coordinator) -> None:
    one.join("a", "t", instance_id="i")
    assert one.beat("a", -1, instance_id="i").member_epoch == -1
    assert one.group.is_empty


def test_who_goes_for_a_while_has_given_back_what_it_was_asked_for(one: Coordinator) -> None:
    one.join("a", "t", instance_id="i")
    one.join("b", "t")
    one.beat("a", 1)
    one.beat("a", -2, instance_id="i")
    assert assigned(one.beat("b", 2)) == parts("t", 2, 3)
    answer = one.join("a2", "t", instance_id="i")
    assert (answer.member_epoch, assigned(answer)) == (2, parts("t", 0, 1))


def test_a_static_member_that_comes_back_with_other_topics(one: Coordinator) -> None:
    one.topics.put("u", 1)
    one.join("a", "t", instance_id="i")
    one.beat("a", -2, instance_id="i")
    answer = one.join("a2", "u", instance_id="i")
    assert (answer.member_epoch, assigned(answer)) == (2, parts("u", 0))


# --------------------------------------------------------------------------------------------------- expressions


def test_an_expression_is_resolved_at_once(one: Coordinator) -> None:
    one.topics.put("tx", 1)
    answer = one.beat("a", 0, regex="t.?", owned=frozenset(), rebalance_timeout_ms=1_000)
    assert (answer.member_epoch, assigned(answer)) == (1, parts("t", 0, 1, 2, 3) | parts("tx", 0))


def test_topics_made_later_are_found_within_ten_seconds(one: Coordinator) -> None:
    one.beat("a", 0, regex="t.*", owned=frozenset(), rebalance_timeout_ms=1_000)
    one.topics.put("tx", 1)
    assert one.beat("a", 1).assignment is None
    one.pass_time(10_000)
    assert assigned(one.beat("a", 1)) == parts("t", 0, 1, 2, 3) | parts("tx", 0)


def test_looking_again_and_finding_the_same_writes_nothing(one: Coordinator) -> None:
    one.beat("a", 0, regex="t.*", owned=frozenset(), rebalance_timeout_ms=1_000)
    one.topics.put("other", 1)
    one.pass_time(10_000)
    written = len(one.log)
    one.beat("a", 1)
    assert len(one.log) == written


def test_an_expression_that_nobody_uses_is_forgotten(one: Coordinator) -> None:
    one.topics.put("u", 1)
    one.beat("a", 0, regex="t.*", owned=frozenset(), rebalance_timeout_ms=1_000)
    one.beat("b", 0, regex="u.*", owned=frozenset(), rebalance_timeout_ms=1_000)
    assert sorted(one.group.state.regexes) == ["t.*", "u.*"]
    one.beat("a", 1, regex="u.*")
    assert sorted(one.group.state.regexes) == ["u.*"]
    one.beat("b", -1)
    assert sorted(one.group.state.regexes) == ["u.*"]


def test_names_and_an_expression_together(one: Coordinator) -> None:
    one.topics.put("u", 1)
    answer = one.join("a", "t", regex="u")
    assert assigned(answer) == parts("t", 0, 1, 2, 3) | parts("u", 0)
    assert assigned(one.beat("a", 1, regex="")) == parts("t", 0, 1, 2, 3)


def test_an_expression_that_is_refused_changes_nothing(one: Coordinator) -> None:
    one.join("a", "t")
    for expression in ("(", "(a+)+"):
        with refused(ErrorCode.invalid_regular_expression):
            one.beat("a", 1, regex=expression)
    assert one.beat("a", 1).member_epoch == 1


def test_an_expression_of_kafkas_that_is_too_costly_for_us_keeps_its_topics(one: Coordinator) -> None:
    one.join("a", "t")
    one.join("b", "t")
    value = replace(one.member("b").metadata(), topic_names=(), topic_regex="(a+)+")
    one.group.replay(Change(Kind.MEMBER, "g", "b", value))
    one.group.replay(Change(Kind.REGEX, "g", "(a+)+", RegexValue(("t",), 1, 1)))
    one.pass_time(20_000)
    one.topics.put("x", 1)
    assert one.beat("a", 1).member_epoch == 1, "others go on"
    assert one.group.state.regexes["(a+)+"].topics == ("t",)


# ----------------------------------------------------------------------------------------------- time and the rest


def test_a_silent_member_is_fenced_when_its_session_ends(one: Coordinator) -> None:
    one.join("a", "t")
    one.join("b", "t")
    one.pass_time(44_000)
    one.beat("b", 2)
    assert one.pass_time(999) == []
    assert one.pass_time(1) == ["a"]
    assert assigned(one.beat("b", 2)) == parts("t", 0, 1, 2, 3)


def test_several_that_end_together_are_one_change(one: Coordinator) -> None:
    for name in "abc":
        one.join(name, "t")
    epoch = one.group.epoch
    assert one.pass_time(45_000) == ["a", "b", "c"]
    assert one.group.epoch == epoch + 1
    assert one.group.next_due() is None


def test_who_does_not_give_back_in_time_is_fenced(one: Coordinator) -> None:
    one.join("a", "t", rebalance_timeout_ms=20_000)
    one.join("b", "t")
    one.beat("a", 1)
    for _ in range(3):
        assert one.pass_time(6_000) == []
        one.beat("a", 1, owned=parts("t", 0, 1, 2, 3))
        one.beat("b", 2)
    assert one.pass_time(2_000) == ["a"]
    with refused(ErrorCode.unknown_member_id):
        one.beat("a", 1)


def test_who_gives_back_in_time_is_left_alone(one: Coordinator) -> None:
    one.join("a", "t", rebalance_timeout_ms=20_000)
    one.join("b", "t")
    one.beat("a", 1)
    one.pass_time(19_000)
    one.beat("a", 1, owned=parts("t", 0, 1))
    assert one.pass_time(5_000) == []


def test_a_static_member_away_does_not_get_a_longer_session(one: Coordinator) -> None:
    one.join("a", "t", instance_id="i")
    one.pass_time(40_000)
    one.beat("a", -2, instance_id="i")
    assert one.pass_time(5_000) == ["a"]


def test_after_a_failover_everybody_has_a_whole_session(one: Coordinator) -> None:
    one.join("a", "t", rebalance_timeout_ms=10_000)
    one.join("b", "t")
    one.beat("a", 1)
    one.pass_time(9_000)
    one.fail_over()
    assert one.pass_time(9_999) == []
    assert one.pass_time(1) == ["a"], "what it has to give back is due anew, too"
    assert one.pass_time(35_000) == ["b"]


def test_deadlines_that_were_not_acted_on_stay(one: Coordinator) -> None:
    one.join("a", "t")
    one.now_ms += 50_000
    first = one.group.on_time(one.now_ms, one.topics, one.settings)
    assert first.records
    assert one.group.on_time(one.now_ms, one.topics, one.settings) == first, "the records could not be appended"
    one.take(first)
    assert one.group.on_time(one.now_ms, one.topics, one.settings).records == []


def test_topics_as_kafka_4_0_listed_them_are_taken_back(one: Coordinator) -> None:
    one.join("a", "t")
    one.group.replay(Change(Kind.PARTITION_METADATA, "g", "", PartitionMetadataValue(b"\x01\x00")))
    one.topics.put("x", 1)
    one.beat("a", 1)
    assert encode(Change(Kind.PARTITION_METADATA, "g", "", None)) in one.log
    assert not one.group.state.has_partition_metadata


def test_commits_are_checked_as_kafka_does(one: Coordinator) -> None:
    check = one.group.check_commit
    check("", None, -1, api_version=8)  # nobody is there: an admin client may
    one.join("a", "t")
    check("a", None, 1, api_version=9)
    with refused(ErrorCode.unsupported_version):
        check("a", None, 1, api_version=8)
    check("a", None, 1, api_version=3, is_transactional=True)
    check("", None, -1, api_version=3, is_transactional=True)
    for epoch in (0, 2, -1):
        with refused(ErrorCode.stale_member_epoch):
            check("a", None, epoch, api_version=9)
    for member_id in ("", "b"):
        with refused(ErrorCode.unknown_member_id):
            check(member_id, None, -1, api_version=9)


def test_fetches_of_offsets_are_checked_as_kafka_does(one: Coordinator) -> None:
    one.join("a", "t")
    one.group.check_fetch(None, -1)
    one.group.check_fetch("a", 1)
    with refused(ErrorCode.stale_member_epoch):
        one.group.check_fetch("a", 2)
    with refused(ErrorCode.unknown_member_id):
        one.group.check_fetch("b", 1)


@pytest.mark.parametrize("version", [0, 1])
def test_a_group_is_described(one: Coordinator, version: int) -> None:
    one.join("a", "t", instance_id="i", rack_id="r")
    one.join("b", regex="t")
    one.beat("a", 1)
    fields = one.group.describe(one.topics, one.settings)
    (group,) = decoded(DESCRIBE, version, {"groups": [{"error_code": ErrorCode.none, **fields}]}).groups
    assert (group.group_id, group.group_state, group.group_epoch) == ("g", "Reconciling", 2)
    assert (group.assignment_epoch, group.assignor_name) == (2, "uniform")
    first, second = group.members
    assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch) == ("a", "i", "r", 1)
    assert (first.client_id, first.client_host) == ("client", "/10.0.0.1")
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (("t",), None)
    (topic,) = first.assignment.topic_partitions
    assert (topic.topic_id, topic.topic_name, topic.partitions) == (topic_id("t"), "t", (0, 1))
    assert (second.subscribed_topic_names, second.subscribed_topic_regex) == ((), "t")
    assert second.assignment.topic_partitions == ()
    assert second.target_assignment.topic_partitions[0].partitions == (2, 3)
    if version == 1:
        assert (first.member_type, second.member_type) == (1, 1)


def test_what_a_group_is_subscribed_to(one: Coordinator) -> None:
    one.topics.put("u", 1)
    one.join("a", "t", regex="u")
    assert [name for name in ("t", "u", "v") if one.group.is_subscribed_to(name)] == ["t", "u"]


def test_records_do_not_depend_on_the_order_of_sets() -> None:
    """The same requests give the same bytes in every process, or no seed of the simulator would mean anything."""
    program = (
        "from tests.unit.groups.consumer.group_model import *\n"
        "one = Coordinator(Topics(**{f't{number}': 5 for number in range(9)}))\n"
        "for name in 'abcdef': one.join(name, 't1', 't2', name, regex='t[3-9]' if name > 'c' else None)\n"
        "one.pass_time(60_000)\n"
        "print([(record.key, record.value) for record in one.log])"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).resolve().parents[4],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    ]
    assert len(printed[0]) > 1_000
    assert printed[0] == printed[1] == printed[2]
