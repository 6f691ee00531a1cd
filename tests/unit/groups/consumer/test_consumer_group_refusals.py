"""What a consumer group refuses: requests that make no sense, epochs that are not the member's, offsets of strangers."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.unit.groups.consumer.group_model import Coordinator, Topics, assigned, parts
from tests.unit.groups.consumer.refusals import refused
from yak.errors import ErrorCode
from yak.groups.consumer.checks import check_commit, check_fetch
from yak.groups.consumer.member import MemberState
from yak.groups.consumer.partitions import NO_PARTITIONS
from yak.groups.consumer.records import Change, Kind
from yak.groups.consumer.settings import ConsumerGroupSettings

# ----------------------------------------------------------------------------------------------------- requests


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"member_id": "", "epoch": 0}, "MemberId can't be empty"),
        ({"member_id": "", "epoch": 3, "version": 0}, "MemberId can't be empty"),
        ({"group_id": ""}, "GroupId can't be empty"),
        ({"instance_id": ""}, "InstanceId can't be empty"),
        ({"rack_id": ""}, "RackId can't be empty"),
        # Utils.throwIfEmptyString trims
        ({"member_id": " "}, "MemberId can't be empty"),
        ({"group_id": " "}, "GroupId can't be empty"),
        ({"instance_id": " "}, "InstanceId can't be empty"),
        ({"rack_id": " "}, "RackId can't be empty"),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided"),
        ({"rebalance_timeout_ms": -5}, "can't be negative"),
        ({"owned": None}, "TopicPartitions must be empty"),
        ({"owned": parts("t", 0)}, "TopicPartitions must be empty"),
        ({"topics": None}, "Either SubscribedTopicNames or SubscribedTopicRegex"),
        ({"epoch": -2}, "InstanceId can't be null"),
        ({"epoch": -3}, "MemberEpoch is invalid"),
        ({"member_id": "x" * 40_000}, "MemberId can't be longer"),
        ({"topics": ["é" * 20_000]}, "SubscribedTopicNames can't be longer"),
        ({"client_id": "\ufffd" * 20_000}, "ClientId can't be longer"),
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
        one.heartbeat(**{**sound, **said})
    assert one.log == []
    assert one.heartbeat(**sound).member_epoch == 2


def test_an_assignor_that_is_not_offered(one: Coordinator) -> None:
    with refused(ErrorCode.unsupported_assignor, "Supported assignors: uniform, range"):
        one.join("a", "t", assignor="sticky")


def test_members_that_the_group_does_not_have(one: Coordinator) -> None:
    for epoch in (1, -1):
        with refused(ErrorCode.unknown_member_id):
            one.heartbeat("a", epoch)


def test_full_group_accepts_no_new_member() -> None:
    one = Coordinator(Topics(t=4), ConsumerGroupSettings(max_size=2))
    one.join("a", "t", instance_id="i")
    one.join("b", "t")
    with refused(ErrorCode.group_max_size_reached, "capacity of 2"):
        one.join("c", "t")
    assert one.join("b", "t").member_epoch > 0, "a member may rejoin"
    one.heartbeat("a", -2, instance_id="i")
    assert one.join("a2", "t", instance_id="i").member_epoch > 0, "who takes another's place is not one more"


def test_heartbeat_of_an_unknown_member_to_a_full_group_returns_group_max_size_reached() -> None:
    """As GroupMetadataManager.throwIfConsumerGroupIsFull, which comes before the member is looked for."""
    one = Coordinator(Topics(t=4), ConsumerGroupSettings(max_size=1))
    one.join("a", "t")
    with refused(ErrorCode.group_max_size_reached):
        one.heartbeat("b", 1)
    with refused(ErrorCode.unknown_member_id):
        one.heartbeat("b", -1)
    assert one.heartbeat("a", 2).member_epoch == 2


# ------------------------------------------------------------------------------------------------ member epochs


def test_epochs_that_are_not_the_members(one: Coordinator) -> None:
    one.join("a", "t")
    with refused(ErrorCode.fenced_member_epoch, "greater member epoch"):
        one.heartbeat("a", 3)
    one.join("b", "t")
    one.heartbeat("a", 2)
    one.heartbeat("a", 2, owned=parts("t", 0, 1))
    assert one.member("a").epoch == 3
    one.join("c", "u")
    one.heartbeat("a", 3)
    with refused(ErrorCode.fenced_member_epoch, "smaller member epoch"):
        one.heartbeat("a", 2, owned=parts("t", 0))


def test_the_epoch_before_is_taken_when_the_answer_may_have_been_lost(one: Coordinator) -> None:
    one.join("a", "t")
    one.join("b", "t")
    one.heartbeat("a", 2)
    one.heartbeat("a", 2, owned=parts("t", 0, 1))  # the answer, with epoch 3, is lost
    assert one.heartbeat("a", 2, owned=parts("t", 0, 1)).member_epoch == 3
    assert one.heartbeat("a", 2, owned=parts("t", 0)).member_epoch == 3
    with refused(ErrorCode.fenced_member_epoch):
        one.heartbeat("a", 2, owned=parts("t", 0, 1, 2))
    with refused(ErrorCode.fenced_member_epoch):
        one.heartbeat("a", 2)


def test_an_answer_that_is_lost_while_the_member_waits_can_be_lost_again(one: Coordinator) -> None:
    one.join("a", "t")
    one.join("b", "t")
    assert one.member("b").state is MemberState.UNRELEASED_PARTITIONS
    for _ in range(3):
        assert one.heartbeat("b", 0, topics=["t"], owned=frozenset(), rebalance_timeout_ms=1_000).member_epoch == 3
    assert one.member("b").previous_epoch == 0


@pytest.mark.parametrize("state", ["stable", "unrevoked", "unreleased"])
def test_a_fenced_member_may_come_back_with_epoch_0(one: Coordinator, state: str) -> None:
    one.join("a", "t")
    if state != "stable":
        one.join("b", "t")
        one.heartbeat("a", 2)
    answer = one.join("b" if state == "unreleased" else "a", "t")
    if state == "stable":
        assert (answer.member_epoch, assigned(answer)) == (2, parts("t", 0, 1, 2, 3))
    elif state == "unrevoked":
        assert (answer.member_epoch, assigned(answer)) == (3, parts("t", 0, 1)), (
            "it holds nothing, so nothing is left to revoke"
        )
    else:
        assert (answer.member_epoch, assigned(answer)) == (3, NO_PARTITIONS)


def test_member_of_an_unknown_state_is_fenced_and_joins_again(one: Coordinator) -> None:
    one.join("a", "t")
    current = one.member("a").current()
    one.group.replay(Change(Kind.CURRENT, "g", "a", replace(current, state=9)))
    assert one.member("a").state is MemberState.UNKNOWN
    with refused(ErrorCode.fenced_member_epoch, "does not know"):
        one.heartbeat("a", 2)
    assert assigned(one.join("a", "t")) == parts("t", 0, 1, 2, 3)


# ------------------------------------------------------------------------------------------------------ offsets


def test_commits_are_checked_as_kafka_does(one: Coordinator) -> None:
    check, all_four = partial(check_commit, one.group.state), parts("t", 0, 1, 2, 3)
    check("", None, -1, all_four, api_version=8)  # a group without members: an admin client may
    one.join("a", "t")
    check("a", None, 2, all_four, api_version=9)
    with refused(ErrorCode.unsupported_version):
        check("a", None, 2, all_four, api_version=8)
    check("a", None, 2, all_four, api_version=3, is_transactional=True)
    check("", None, -1, all_four, api_version=3, is_transactional=True)
    for epoch in (0, 3, -1):
        with refused(ErrorCode.stale_member_epoch):
            check("a", None, epoch, all_four, api_version=9)
    for member_id in ("", "b"):
        with refused(ErrorCode.unknown_member_id):
            check(member_id, None, -1, all_four, api_version=9)


def test_commit_with_an_older_epoch_is_for_partitions_that_the_member_had_then(one: Coordinator) -> None:
    # the rule of KIP-1251, from createAssignmentEpochValidator in Kafka
    one.join("a", "t")
    one.join("b", "t")
    told = one.heartbeat("a", 2)
    assert told.member_epoch == 2
    kept = assigned(told)
    revoked = parts("t", 0, 1, 2, 3) - kept
    check = partial(check_commit, one.group.state)
    told = one.heartbeat("a", 2, owned=kept)
    assert told.member_epoch == 3
    one.heartbeat("b", 3, owned=NO_PARTITIONS)
    for _ in range(2):
        check("a", None, 2, kept, api_version=9)
        with refused(ErrorCode.stale_member_epoch, "neither assigned"):
            check("a", None, 2, revoked, api_version=9)
        with refused(ErrorCode.stale_member_epoch, "older"):
            check("b", None, 2, revoked, api_version=9)
        with refused(ErrorCode.stale_member_epoch, "newer"):
            check("a", None, 4, kept, api_version=9)
        one.fail_over()


def test_commit_with_an_older_epoch_is_for_partitions_that_the_member_is_revoking(one: Coordinator) -> None:
    one.join("a", "t")
    one.join("b", "t")
    kept = assigned(one.heartbeat("a", 2))
    assert one.heartbeat("a", 2, owned=kept).member_epoch == 3
    one.join("c", "t")
    one.heartbeat("a", 3)
    assert (one.member("a").epoch, len(one.member("a").revoking)) == (3, 1)
    check_commit(one.group.state, "a", None, 2, kept, api_version=9)


def test_partition_that_returns_to_a_member_has_a_new_assignment_epoch(one: Coordinator) -> None:
    one.join("a", "t")
    one.join("b", "t")
    kept = assigned(one.heartbeat("a", 2))
    returned = parts("t", 0, 1, 2, 3) - kept
    one.heartbeat("a", 2, owned=kept)
    one.heartbeat("b", -1)
    assert assigned(one.heartbeat("a", 3)) == kept | returned
    check_commit(one.group.state, "a", None, 2, kept, api_version=9)
    for epoch in (2, 3):
        with refused(ErrorCode.stale_member_epoch, "older"):
            check_commit(one.group.state, "a", None, epoch, returned, api_version=9)


def test_static_member_that_returns_may_commit_with_every_epoch(one: Coordinator) -> None:
    # ConsumerGroupMember.resetAssignedPartitionsEpochsToZero: its epochs begin at zero
    one.join("a", "t", instance_id="i")
    one.heartbeat("a", -2, instance_id="i")
    one.join("b", "t", instance_id="i")
    check_commit(one.group.state, "b", "i", 0, parts("t", 0, 1, 2, 3), api_version=9)


def test_fetches_of_offsets_are_checked_as_kafka_does(one: Coordinator) -> None:
    one.join("a", "t")
    check_fetch(one.group.state, None, -1)
    check_fetch(one.group.state, "a", 2)
    with refused(ErrorCode.stale_member_epoch):
        check_fetch(one.group.state, "a", 3)
    with refused(ErrorCode.unknown_member_id):
        check_fetch(one.group.state, "b", 2)
