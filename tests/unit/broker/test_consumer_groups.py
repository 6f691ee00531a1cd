"""Groups of the consumer protocol in one broker: their APIs, their records, their clock, and their change of protocol."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Pending, Rig
from tests.unit.broker import group_requests as ask
from tests.unit.broker.groups_rig import subscription
from tests.unit.broker.requests import fitted, restart
from tests.unit.broker.test_coordinator import make_rig, replicated, topic_id
from tests.unit.noted_calls import note_calls
from yak.coordination import runtime
from yak.groups.consumer.state import GroupState
from yak.protocol.record_batch import iterate_headers

HEARTBEAT, DESCRIBE, CREATE_PARTITIONS = 68, 69, 37
NONE = ErrorCode.none


@pytest.fixture
def rig() -> Rig:
    return make_rig()


def heartbeat_fields(
    member_id: str = "",
    epoch: int = 0,
    *,
    group: str = "g",
    version: int = 1,
    topics: list[str] | None = None,
    regex: str | None = None,
    owned: list[dict[str, Any]] | None = None,
    instance: str | None = None,
    assignor: str | None = None,
) -> dict[str, Any]:
    is_joining = epoch == 0
    fields: dict[str, Any] = {
        "group_id": group,
        "member_id": member_id,
        "member_epoch": epoch,
        "instance_id": instance,
        "rack_id": None,
        "rebalance_timeout": ask.ms(20_000 if is_joining else -1),
        "subscribed_topic_names": (["orders"] if topics is None and regex is None else topics)
        if is_joining
        else topics,
        "server_assignor": assignor,
        "subscribed_topic_regex": regex,
        "topic_partitions": [] if is_joining else owned,
    }
    return fitted(HEARTBEAT, version, **fields)


def begin_heartbeat(rig: Rig, *words: Any, client: Any = None, version: int = 1, **named: Any) -> Pending:
    return rig.begin(HEARTBEAT, version, client=client, **heartbeat_fields(*words, version=version, **named))


def heartbeat(rig: Rig, *words: Any, version: int = 1, **named: Any) -> Any:
    return rig.ask(HEARTBEAT, version, **heartbeat_fields(*words, version=version, **named))


def owned(rig: Rig, *partitions: int) -> list[dict[str, Any]]:
    return [{"topic_id": topic_id(rig), "partitions": list(partitions)}] if partitions else []


def partitions(answer: Any) -> list[int]:
    assert answer.assignment is not None, answer
    return sorted(index for topic in answer.assignment.topic_partitions for index in topic.partitions)


def describe(rig: Rig, group: str = "g", version: int = 1) -> Any:
    return rig.ask(DESCRIBE, version, group_ids=[group], include_authorized_operations=True).groups[0]


@pytest.mark.parametrize("version", range(2))
def test_a_lone_member_gets_everything_in_every_version(rig, version):
    answer = heartbeat(rig, "" if version == 0 else "mine", version=version)
    assert (answer.error_code, answer.member_epoch) == (NONE, 2)
    assert partitions(answer) == [0, 1, 2]
    assert answer.heartbeat_interval == ask.ms(5_000)
    described = describe(rig, version=version)
    assert (described.group_state, described.assignor_name, described.group_epoch) == ("Stable", "uniform", 2)
    assert [each.member_id for each in described.members] == [answer.member_id]


def test_missing_group_or_member_is_refused_with_a_message(rig):
    answer = heartbeat(rig, "a", 3)
    assert answer.error_code == ErrorCode.group_id_not_found
    assert "not found" in answer.error_message
    heartbeat(rig, "a")
    assert heartbeat(rig, "b", 3).error_code == ErrorCode.unknown_member_id
    assert heartbeat(rig, "a", 9).error_code == ErrorCode.fenced_member_epoch
    assert heartbeat(rig, "b", regex="(").error_code == ErrorCode.invalid_regular_expression
    assert heartbeat(rig, "b", assignor="best").error_code == ErrorCode.unsupported_assignor
    assert heartbeat(rig, "x" * 40_000).error_code == ErrorCode.invalid_request
    assert [each.member_id for each in describe(rig).members] == ["a"]


def test_heartbeat_of_a_member_to_a_group_that_has_offsets_only_is_refused(rig):
    # GroupMetadataManager.getOrMaybeCreateConsumerGroup: it is a classic group, empty, until a member joins
    assert ask.commit(rig, {0: 2}) == [NONE]
    assert heartbeat(rig, "a", 3).error_code == ErrorCode.group_id_not_found
    assert heartbeat(rig, "a").error_code == NONE
    assert heartbeat(rig, "b", 3).error_code == ErrorCode.unknown_member_id


def test_an_expression_means_the_topics_there_are_and_those_that_come(rig):
    answer = heartbeat(rig, "a", regex="ord.*")
    assert partitions(answer) == [0, 1, 2]
    rig.create_topic("orders-new")
    rig.run_for(11_000)
    grown = heartbeat(rig, "a", answer.member_epoch)
    assert len(partitions(grown)) == 4


def test_a_coordinator_that_starts_knows_its_members(rig):
    answer = heartbeat(rig, "a")
    ask.commit(rig, {0: 7}, member_id="a", generation=answer.member_epoch)
    restart(rig)
    assert heartbeat(rig, "a", answer.member_epoch, owned=owned(rig, 0, 1, 2)).error_code == NONE
    assert ask.committed(rig, [0]) == [7]
    assert [(each.group_id, each.group_type, each.group_state) for each in ask.list_groups(rig).groups] == [
        ("g", "consumer", "Stable")
    ]


def test_group_whose_own_tombstones_are_in_two_batches_is_deleted(rig, monkeypatch):
    monkeypatch.setattr(runtime, "TOMBSTONES_AT_ONCE", 2)
    epoch = heartbeat(rig, "a").member_epoch
    assert ask.commit(rig, {0: 2}, member_id="a", generation=epoch) == [NONE]
    assert heartbeat(rig, "a", -1).error_code == NONE
    (deleted,) = rig.ask(ask.DELETE, 2, groups_names=["g"]).results
    assert deleted.error_code == NONE
    restart(rig)
    assert list(ask.list_groups(rig).groups) == []


def test_late_members_whose_tombstones_exceed_a_batch_are_fenced_in_several(rig):
    """No batch was written, so the partitions stayed with members that were gone."""
    for name in "abcdefghijklmnop":
        assert heartbeat(rig, name * 30_000).error_code == NONE
    restart(rig)
    rig.run_for(46_000)
    assert describe(rig).group_state == "Empty"


def test_a_silent_member_is_fenced_after_its_session():
    rig = make_rig(group_consumer_session_timeout_ms="6000")
    answer = heartbeat(rig, "a")
    rig.run_for(5_900)
    assert heartbeat(rig, "a", answer.member_epoch).error_code == NONE
    rig.run_for(6_100)
    assert heartbeat(rig, "a", answer.member_epoch).error_code == ErrorCode.unknown_member_id
    restart(rig)
    assert describe(rig).group_state == "Empty"


def test_only_members_commit_and_they_say_their_epoch(rig):
    answer = heartbeat(rig, "a")
    mine = {"member_id": "a", "generation": answer.member_epoch}
    assert ask.commit(rig, {0: 1}, **mine) == [NONE]
    assert ask.commit(rig, {0: 2}, **mine | {"generation": 0}) == [ErrorCode.stale_member_epoch]
    assert ask.commit(rig, {0: 2}, **mine | {"member_id": "b"}) == [ErrorCode.unknown_member_id]
    fields = ask.fetch_fields(9, [0])
    fields["groups"][0] |= {"member_id": "a", "member_epoch": 5}
    assert rig.ask(ask.FETCH, 9, **fields).groups[0].error_code == ErrorCode.stale_member_epoch
    fields["groups"][0] |= {"member_epoch": answer.member_epoch}
    assert rig.ask(ask.FETCH, 9, **fields).groups[0].topics[0].partitions[0].committed_offset == 1
    # OffsetMetadataManager.fetchOffsets: no member is checked where there is no group
    fields["groups"][0] |= {"group_id": "none"}
    unknown = rig.ask(ask.FETCH, 9, **fields).groups[0]
    assert (unknown.error_code, unknown.topics[0].partitions[0].committed_offset) == (NONE, -1)


def test_member_commits_with_its_last_epoch_while_the_answer_with_the_new_one_is_on_its_way(rig):
    answer = heartbeat(rig, "a")
    late = {"member_id": "a", "generation": answer.member_epoch}
    heartbeat(rig, "b")
    told = heartbeat(rig, "a", answer.member_epoch)
    kept = partitions(told)
    assert heartbeat(rig, "a", told.member_epoch, owned=owned(rig, *kept)).member_epoch > answer.member_epoch
    gone = next(index for index in range(3) if index not in kept)
    assert ask.commit(rig, {kept[0]: 7}, **late) == [NONE]
    # one partition that the member has no more refuses the whole request (OffsetMetadataManager.commitOffset)
    assert ask.commit(rig, {kept[0]: 8, gone: 8}, **late) == [ErrorCode.stale_member_epoch] * 2
    assert ask.committed(rig, [kept[0]]) == [7]
    restart(rig)
    assert ask.commit(rig, {kept[0]: 9}, **late) == [NONE]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"epoch": -3}, "MemberEpoch is invalid."), ({"member_id": " "}, "MemberId"), ({"epoch": -2}, "InstanceId")],
)
def test_malformed_heartbeat_is_refused_before_its_group_is_searched(rig, wrong, words):
    # GroupCoordinatorService.consumerGroupHeartbeat validates the request first
    for group in ("none", "g"):
        answer = heartbeat(rig, **{"member_id": "a", "epoch": 1, "group": group} | wrong)
        assert answer.error_code == ErrorCode.invalid_request
        assert words in answer.error_message


@pytest.mark.parametrize("group", ["", " "])
def test_a_heartbeat_with_a_blank_group_id_is_an_invalid_request(rig, group):
    answer = heartbeat(rig, "a", group=group)
    assert (answer.error_code, answer.error_message) == (ErrorCode.invalid_request, "GroupId can't be empty.")
    assert ask.list_groups(rig).groups == ()


def test_authorized_operations_are_described_of_groups_without_an_error_only(rig):
    # KafkaApis.handleConsumerGroupDescribe and handleDescribeGroupsRequest
    heartbeat(rig, "a")
    assert describe(rig).authorized_operations > 0
    assert describe(rig, "none").authorized_operations == -(2**31)
    for group, version, is_described in (("none", 6, False), ("none", 5, True), ("g", 6, False)):
        answer = rig.ask(ask.DESCRIBE, version, groups=[group], include_authorized_operations=True).groups[0]
        assert (answer.authorized_operations > 0) is is_described


def test_a_group_is_deleted_when_it_is_empty(rig):
    answer = heartbeat(rig, "a")
    ask.commit(rig, {0: 1}, member_id="a", generation=answer.member_epoch)
    assert rig.ask(ask.DELETE, 2, groups_names=["g"]).results[0].error_code == ErrorCode.non_empty_group
    topics = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
    deleted = rig.ask(ask.DELETE_OFFSETS, 0, group_id="g", topics=topics)
    assert deleted.topics[0].partitions[0].error_code == ErrorCode.group_subscribed_to_topic
    heartbeat(rig, "a", -1)
    assert rig.ask(ask.DELETE, 2, groups_names=["g"]).results[0].error_code == NONE
    restart(rig)
    assert ask.list_groups(rig).groups == ()
    assert describe(rig).error_code == ErrorCode.group_id_not_found


def test_each_kind_of_group_is_described_by_its_own_api(rig):
    heartbeat(rig, "a")
    ask.stable(rig, "old")
    assert ask.describe(rig, "g").error_code == ErrorCode.group_id_not_found
    assert "not a classic group" in ask.describe(rig, "g").error_message
    assert ask.describe(rig, "g", version=5).group_state == "Dead"
    assert describe(rig, "old").error_code == ErrorCode.group_id_not_found
    assert "not a consumer group" in describe(rig, "old").error_message


def test_no_answer_leaves_before_its_records_are_committed():
    rig = make_rig(offsets_commit_timeout_ms="2000")
    replicated(rig)
    waiting = begin_heartbeat(rig, "a")
    rig.run_for(1_500)
    assert not waiting.is_done
    rig.run_for(700)
    assert waiting.answer.error_code == ErrorCode.coordinator_not_available


# ------------------------------------------------------------------------------------------------- change of protocol


def assignment(*partitions: int) -> bytes:
    numbers = b"".join(number.to_bytes(4, "big") for number in partitions)
    head = b"\0\0" + b"\0\0\0\1" + b"\0\6orders"
    return head + len(partitions).to_bytes(4, "big") + numbers + b"\xff\xff\xff\xff"


def classic(rig: Rig) -> Any:
    joined = ask.join(rig, metadata=subscription("orders"))
    assert ask.sync(rig, joined, assignment(0, 1, 2)).error_code == NONE
    return joined


def rejoin(rig: Rig, old: Any) -> Any:
    return rig.ask(ask.JOIN, 9, **ask.join_fields(9, "g", old.member_id, metadata=subscription("orders")))


def join_of_a_second(rig: Rig) -> Pending:
    """Another classic member, whose join waits for the first one's."""
    client, words = rig.new_client(), {"metadata": subscription("orders")}
    member_id = rig.ask(ask.JOIN, 9, client=client, **ask.join_fields(9, **words)).member_id
    return ask.begin_join(rig, 9, "g", member_id, client=client, **words)


def test_a_refused_join_to_a_consumer_group_names_no_member(rig):
    old = classic(rig)
    assert heartbeat(rig, "new").error_code == NONE
    again = rig.ask(ask.JOIN, 9, **ask.join_fields(9, "g", old.member_id, metadata=b"\x00\x01\xff\xff"))
    assert (again.error_code, again.member_id) == (ErrorCode.inconsistent_group_protocol, "")


def test_a_first_join_to_a_consumer_group_gets_a_member_id_before_its_subscription_is_read(rig):
    assert heartbeat(rig, "new").error_code == NONE
    first = rig.ask(ask.JOIN, 9, **ask.join_fields(9, "g", metadata=b""))
    assert first.error_code == ErrorCode.member_id_required
    assert first.member_id


def test_classic_group_converts_to_a_consumer_group_and_its_members_continue(rig):
    old = classic(rig)
    new = heartbeat(rig, "new")
    assert new.error_code == NONE
    assert partitions(new) == []
    assert [each.group_type for each in ask.list_groups(rig).groups] == ["consumer"]
    assert ask.heartbeat(rig, old) == ErrorCode.rebalance_in_progress
    again = rejoin(rig, old)
    assert again.error_code == NONE
    given = ask.sync(rig, again)
    assert given.error_code == NONE
    assert given.assignment != assignment(0, 1, 2)
    members = {each.member_id: each.member_type for each in describe(rig).members}
    assert members == {old.member_id: 0, "new": 1}
    restart(rig)
    assert {each.member_id: each.member_type for each in describe(rig).members} == members


def test_group_reverts_to_classic_when_the_last_consumer_protocol_member_leaves(rig):
    old = classic(rig)
    heartbeat(rig, "new")
    again = rejoin(rig, old)
    assert heartbeat(rig, "new", -1).error_code == NONE
    assert [each.group_type for each in ask.list_groups(rig).groups] == ["classic"]
    assert ask.heartbeat(rig, again) == ErrorCode.rebalance_in_progress
    back = rejoin(rig, old)
    assert back.leader == old.member_id
    assert ask.sync(rig, back, assignment(0, 1, 2)).error_code == NONE
    restart(rig)
    assert ask.heartbeat(rig, back) == NONE


def test_group_that_reverted_to_classic_rebalances_also_at_the_next_coordinator(rig):
    old = classic(rig)
    heartbeat(rig, "new")
    again = rejoin(rig, old)
    assert heartbeat(rig, "new", -1).error_code == NONE
    restart(rig)
    assert ask.heartbeat(rig, again) == ErrorCode.rebalance_in_progress
    assert rejoin(rig, old).leader == old.member_id


def test_member_whose_session_ended_rejoins_when_its_group_reverted_to_classic_meanwhile(rig):
    """GROUP_ID_NOT_FOUND, Kafka's answer, ends a Java consumer."""
    old = classic(rig)
    epoch = heartbeat(rig, "new").member_epoch
    again = rejoin(rig, old)
    assert ask.sync(rig, again).error_code == NONE
    for _ in range(10):
        rig.run_for(5_000)
        ask.heartbeat(rig, again)
    assert [each.group_type for each in ask.list_groups(rig).groups] == ["classic"]
    assert heartbeat(rig, "new", epoch, owned=[]).error_code == ErrorCode.unknown_member_id
    assert heartbeat(rig, "new").error_code == NONE


def test_a_policy_can_forbid_it():
    rig = make_rig(group_consumer_migration_policy="disabled")
    classic(rig)
    answer = heartbeat(rig, "new")
    assert answer.error_code == ErrorCode.group_id_not_found
    assert "disabled" in answer.error_message
    assert ask.describe(rig).group_state == "Stable"


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"server_assignor": "none"}, ErrorCode.unsupported_assignor),
        ({"rebalance_timeout": ask.ms(-1)}, ErrorCode.invalid_request),
        ({"subscribed_topic_names": None, "subscribed_topic_regex": "("}, ErrorCode.invalid_regular_expression),
    ],
)
def test_a_refused_heartbeat_leaves_a_classic_group_as_it_is(rig, wrong, code):
    old = classic(rig)
    waiting = join_of_a_second(rig)
    assert rig.ask(HEARTBEAT, 1, **{**heartbeat_fields("new"), **wrong}).error_code == code
    assert [each.group_type for each in ask.list_groups(rig).groups] == ["classic"]
    assert not waiting.is_done, "its rebalance goes on"
    restart(rig)
    assert ask.heartbeat(rig, old) == NONE


def test_an_upgrade_and_its_first_member_are_one_batch(rig):
    classic(rig)
    partition = rig.node.broker.group_coordinator.of("g").partition
    before = partition.log_end_offset
    heartbeat(rig, "new")
    batches = rig.fetch("__consumer_offsets", partition.topic_partition.partition).records
    assert [header.base_offset for _, header in iterate_headers(bytes(batches))][-1] == before


def test_subscriptions_are_searched_once_for_a_topic_and_not_for_each_offset(monkeypatch):
    """With a thousand members of a hundred topics each search takes a millisecond, in the step of all clients."""
    rig = make_rig(offsets_retention_check_interval_ms="1000")
    heartbeat(rig, "a")
    assert ask.commit(rig, {0: 1, 1: 2, 2: 3}, member_id="a", generation=2) == [NONE] * 3
    searched = note_calls(monkeypatch, GroupState, "is_subscribed_to")
    rig.run_for(1_100)
    assert [topic for _group, topic in searched] == ["orders"]
    named = [{"name": "orders", "partitions": [{"partition_index": index} for index in range(3)]}]
    topic = rig.ask(ask.DELETE_OFFSETS, 0, group_id="g", topics=named).topics[0]
    assert {each.error_code for each in topic.partitions} == {ErrorCode.group_subscribed_to_topic}
    assert [topic for _group, topic in searched] == ["orders"] * 2


def test_empty_group_takes_the_protocol_of_the_next_member(rig):
    old = classic(rig)
    ask.commit(rig, {0: 5}, member_id=old.member_id, generation=old.generation_id)
    ask.leave(rig, old.member_id)
    assert heartbeat(rig, "new").error_code == NONE
    assert ask.committed(rig, [0]) == [5]
    heartbeat(rig, "new", -1)
    assert classic(rig).error_code == NONE
    restart(rig)
    assert ask.committed(rig, [0]) == [5]
    assert [(each.group_type, each.group_state) for each in ask.list_groups(rig).groups] == [("classic", "Stable")]


def test_member_that_waits_in_a_rebalance_is_notified_to_rejoin(rig):
    old = classic(rig)
    waiting = join_of_a_second(rig)
    rig.run_for(20)
    assert not waiting.is_done
    assert heartbeat(rig, "new").error_code == NONE
    rig.run_for(20)
    assert waiting.answer.error_code == ErrorCode.rebalance_in_progress
    again = rejoin(rig, old)
    assert again.error_code == NONE


def test_partitions_without_a_member_in_a_rebalance_are_assigned_when_a_static_member_upgrades_the_group(rig):
    """A static member that comes back raises no epoch, so the others had no reason to rejoin."""
    joined = ask.join(rig, metadata=subscription("orders"), instance="i")
    assert ask.sync(rig, joined, assignment(0)).error_code == NONE
    join_of_a_second(rig)
    rig.run_for(20)
    assert heartbeat(rig, "new", instance="i").error_code == NONE
    targets = [each.target_assignment.topic_partitions for each in describe(rig).members]
    assert sorted(index for topics in targets for topic in topics for index in topic.partitions) == [0, 1, 2]


def test_partitions_that_the_classic_leader_did_not_know_are_assigned_when_a_static_member_upgrades_the_group(rig):
    """The topic grew while the leader was away. The hash of the grown topic would say that all is assigned."""
    joined = ask.join(rig, metadata=subscription("orders"), instance="i")
    assert ask.sync(rig, joined, assignment(0, 1, 2)).error_code == NONE
    grown = [{"name": "orders", "count": 4, "assignments": None}]
    rig.ask(CREATE_PARTITIONS, 1, topics=grown, timeout=ask.ms(1000), validate_only=False)
    answer = heartbeat(rig, "new", instance="i")
    assert answer.member_epoch > joined.generation_id
    assert partitions(answer) == [0, 1, 2, 3]


def test_consumer_protocol_that_is_not_enabled_gets_unsupported_version():
    # KafkaApis.isConsumerGroupProtocolEnabled: clients then say that the cluster does not support the protocol
    rig = make_rig(group_coordinator_rebalance_protocols="classic")
    refused = heartbeat(rig, "a")
    assert (refused.error_code, refused.member_epoch, refused.assignment) == (ErrorCode.unsupported_version, 0, None)
    assert describe(rig).error_code == ErrorCode.unsupported_version
