from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.consumer_protocol_assignment.v3.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription as SubscriptionV0
from kio.schema.consumer_protocol_subscription.v3.data import ConsumerProtocolSubscription as SubscriptionV3
from kio.schema.consumer_protocol_subscription.v3.data import TopicPartition

from tests.unit.groups.consumer.group_model import Topics, assigned, check_owners, parts
from tests.unit.groups.consumer.migration_model import Migrating, classic_member, given_to, subscription, written
from tests.unit.groups.consumer.refusals import refused
from yak.errors import ErrorCode
from yak.groups.consumer.checks import check_commit
from yak.groups.consumer.consumer_protocol import (
    assignment_bytes,
    read_assignment,
    read_subscription,
    subscription_version,
)
from yak.groups.consumer.description import described
from yak.groups.consumer.downgrade import common_protocol
from yak.groups.consumer.group import ConsumerGroup
from yak.groups.consumer.member import Member, MemberState
from yak.groups.consumer.partitions import NO_PARTITIONS, by_topic
from yak.groups.consumer.records import ClassicMetadata, decode
from yak.groups.consumer.settings import ConsumerGroupSettings, MigrationPolicy
from yak.groups.consumer.upgrade import ClassicGroup, upgraded
from yak.groups.record import Record
from yak.protocol.record_fields import UnreadableRecord


@pytest.fixture
def one() -> Migrating:
    return Migrating(Topics(t=4))


def upgraded_pair(one: Migrating) -> None:
    """Two classic members with two partitions each, in generation 7."""
    one.upgrade(classic_member("a", parts("t", 0, 1), one.topics), classic_member("b", parts("t", 2, 3), one.topics))


# ------------------------------------------------------------------------------------------------- the embedded protocol


NAMES = st.text("abc", max_size=5)


@given(
    st.lists(NAMES, max_size=4),
    st.lists(st.tuples(NAMES, st.lists(st.integers(0, 99), max_size=4)), max_size=3),
    st.none() | st.text("r", min_size=1),
)
def test_subscriptions_are_read_as_kio_writes_them(topics, owned, rack):
    entity = SubscriptionV3(
        topics=tuple(topics),
        owned_partitions=tuple(TopicPartition(topic=name, partitions=tuple(found)) for name, found in owned),  # type: ignore[arg-type]
        rack_id=rack,
    )
    for version in (3, 9):
        read = read_subscription(written(version, entity) + b"what a newer version adds")
        assert (read.version, read.topics, read.rack_id) == (3, tuple(topics), rack)
        assert read.owned == tuple((name, tuple(found)) for name, found in owned)


def test_the_oldest_subscription_says_nothing_of_what_is_held():
    read = read_subscription(written(0, SubscriptionV0(topics=("t",))))
    assert (read.version, read.topics, read.owned, read.rack_id) == (0, ("t",), (), None)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_subscription_or_refused(data):
    for read in (read_subscription, read_assignment):
        try:
            read(data)
        except UnreadableRecord:
            assert subscription_version(data) >= 0


def test_assignments_are_written_as_kio_reads_them():
    topics = Topics(t=4, u=1)
    held = parts("t", 2, 0) | parts("u", 0) | parts("gone", 1)
    data = assignment_bytes(held, 9, topics)
    assert data[:2] == b"\x00\x03"
    assert given_to(data) == {topics.name(one): found for one, found in by_topic(held) if topics.name(one)}
    assert dict(read_assignment(data).partitions)["t"] == (0, 2)


# ----------------------------------------------------------------------------------------------------------- upgrading


def test_classic_group_continues_unchanged_after_the_upgrade(one):
    upgraded_pair(one)
    assert (one.group.state.epoch, one.group.state.state_name) == (7, "Stable")
    member = one.member("a")
    assert (member.epoch, member.assigned, member.topic_names) == (7, parts("t", 0, 1), {"t"})
    assert one.heartbeat_classic("a", 7) is ErrorCode.none
    check_commit(one.group.state, "a", None, 7, parts("t", 0, 1), api_version=3)
    with refused(ErrorCode.illegal_generation):
        check_commit(one.group.state, "a", None, 6, parts("t", 0, 1), api_version=9)
    assert next(described(one.group.state, one.topics, one.settings.assignors[0])["members"])["member_type"] == 0
    one.fail_over()


def test_members_change_over_one_by_one(one):
    upgraded_pair(one)
    answer = one.join("c", "t")
    assert (answer.member_epoch, assigned(answer)) == (8, NO_PARTITIONS)
    # The classic ones are told to come; a gives back, b has nothing to give.
    assert one.heartbeat_classic("a", 7) is ErrorCode.rebalance_in_progress
    with refused(ErrorCode.rebalance_in_progress):
        one.sync_classic("a", 7)
    targets = {name: len(held) for name, held in one.group.state.targets.items()}
    assert sorted(targets.values()) == [1, 1, 2]
    for name in ("a", "b"):
        one.join_classic(name, "t", owned={"t": sorted(number for _, number in one.member(name).held)})
    for name in ("a", "b"):
        if one.member(name).state is MemberState.UNREVOKED_PARTITIONS:
            assert one.member(name).epoch == 7
            assert one.sync_classic(name, 7) == {"t": [number for _, number in sorted(one.member(name).assigned)]}
            assert one.heartbeat_classic(name, 7) is ErrorCode.rebalance_in_progress
            one.join_classic(name, "t", owned=one.sync_classic(name, 7))
        assert one.sync_classic(name, 8) == {"t": [number for _, number in sorted(one.member(name).assigned)]}
        assert one.heartbeat_classic(name, 8) is ErrorCode.none
    assert assigned(one.heartbeat("c", 8)) == one.group.state.target_of("c")
    assert one.group.state.state_name == "Stable"
    # a is restarted with the new protocol.
    one.leave_classic(("a", None))
    assert one.classic is None
    one.join("a2", "t")
    assert [one.member(name).classic is None for name in ("a2", "b", "c")] == [True, False, True]


def test_an_eager_member_gives_all_back_by_rejoining(one):
    old = (("range", written(0, SubscriptionV0(topics=("t",)))),)
    one.upgrade(classic_member("a", parts("t", 0, 1, 2, 3), one.topics, protocols=old))
    one.join("c", "t")
    answer = one.join_classic("a", "t", protocols=old)
    assert answer["generation_id"] == 8
    assert one.sync_classic("a", 8) == {"t": [0, 1]}
    assert assigned(one.heartbeat("c", 8)) == parts("t", 2, 3)


def test_a_member_that_never_fetched_its_assignment_has_none(one):
    one.upgrade(classic_member("a", NO_PARTITIONS, one.topics, assignment=b""))
    assert one.member("a").assigned == NO_PARTITIONS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"protocol_type": "connect"}, "does not use the consumer embedded protocol"),
        ({"members": ("malformed",)}, "malformed"),
        ({"members": ("custom",)}, "custom assignor"),
        ({"members": ("a", "a2")}, "to two members"),
        ({"members": ("a", "b", "b2")}, "exceeds the consumer group maximum size"),
    ],
)
def test_groups_that_cannot_change_over(one, change, words):
    custom = ConsumerProtocolAssignment(assigned_partitions=(), user_data=b"plan")
    known = {
        "a": classic_member("a", parts("t", 0), one.topics),
        "a2": classic_member("a2", parts("t", 0), one.topics),
        "b": classic_member("b", parts("t", 1), one.topics),
        "b2": classic_member("b2", parts("t", 2), one.topics),
        "malformed": classic_member("x", NO_PARTITIONS, one.topics, protocols=(("range", b"\x00\x03\x7f"),)),
        "custom": classic_member("x", NO_PARTITIONS, one.topics, assignment=written(3, custom)),
    }
    members = tuple(known[name] for name in change.pop("members", ("a", "b")))
    group = replace(ClassicGroup("g", 7, "consumer", "range", members), **change)
    with refused(ErrorCode.group_id_not_found, words):
        upgraded(group, one.topics, ConsumerGroupSettings(max_size=2))


def test_the_policy_can_forbid_either_way(one):
    group = ClassicGroup("g", 7, "consumer", "range", ())
    for policy in MigrationPolicy:
        settings = ConsumerGroupSettings(migration_policy=policy)
        if policy.allows_upgrade:
            assert upgraded(group, one.topics, settings)
        else:
            with refused(ErrorCode.group_id_not_found, "online upgrade is disabled"):
                upgraded(group, one.topics, settings)
    one.settings = ConsumerGroupSettings(migration_policy=MigrationPolicy.UPGRADE)
    upgraded_pair(one)
    one.join("c", "t")
    one.heartbeat("c", -1)
    assert one.classic is None
    assert one.group.state.state_name == "Assigning"


def test_a_disabled_migration_lets_no_classic_member_join_or_rejoin(one):
    upgraded_pair(one)
    one.join("c", "t")
    one.settings = ConsumerGroupSettings(migration_policy=MigrationPolicy.DISABLED)
    for member_id in ("", "a"):
        with refused(ErrorCode.inconsistent_group_protocol, "the group migration is disabled"):
            one.join_classic(member_id, "t")


# --------------------------------------------------------------------------------------------------------- downgrading


def test_the_last_of_the_new_protocol_takes_the_group_back_with_it(one):
    upgraded_pair(one)
    one.join("c", "t")
    one.heartbeat("c", -1)
    assert one.classic is not None
    plan = one.classic.downgrade
    assert plan is not None
    assert plan.is_rebalancing
    assert (plan.generation, plan.protocol_type, plan.protocol_name) == (8, "consumer", "range")
    assert [member.member_id for member in plan.members] == ["a", "b"]
    assert plan.members[0].session_timeout_ms == 10_000
    assert [given_to(member.assignment) for member in plan.members] == [{"t": [0, 1]}, {"t": [2, 3]}], (
        "a member of another upgrade would get what they hold, and have not revoked"
    )
    assert all(change.value is None for change in one.classic.changes)
    # Nothing of the group is left in the log, and the way back is open.
    one.compact()
    assert [record for record in one.log if record.value is not None] == []
    again = ConsumerGroup("g")
    for record in upgraded(plan, one.topics, one.settings):
        again.replay(decode(record))
    check_owners(again)


def test_session_timeout_of_the_last_consumer_member_also_downgrades_the_group(one):
    upgraded_pair(one)
    one.join("c", "t")
    for _ in range(9):
        one.pass_time(5_000)
        if one.classic is None:
            for name in ("a", "b"):
                member = one.member(name)
                one.join_classic(name, "t", owned={"t": sorted(number for _, number in member.assigned)})
                one.sync_classic(name, one.member(name).epoch)
    assert one.classic is not None
    assert one.classic.downgrade is not None


def static_pair(one: Migrating) -> None:
    """Two static members, of which the first came back with the consumer protocol."""
    one.upgrade(
        classic_member("a", parts("t", 0, 1), one.topics, instance_id="i"),
        classic_member("b", parts("t", 2, 3), one.topics, instance_id="j"),
    )
    one.heartbeat("a", 0, topics=["t"], owned=frozenset(), rebalance_timeout_ms=60_000, instance_id="i")
    assert one.member("a").classic is None
    assert one.group.state.epoch == 7


MINE_FIRST = (("mine", subscription("t")), ("range", subscription("t")))
"""The other member has no such protocol."""


def test_a_static_member_that_is_restarted_with_the_old_protocol(one):
    static_pair(one)
    answer = one.join_classic("", instance_id="i", protocols=MINE_FIRST, skips_assignment=True)
    assert (answer["member_id"], answer["generation_id"]) == ("made", 7)
    # it is to watch the topics, as every leader does, and to synchronize with the protocol of the group
    assert (answer["leader"], answer["skip_assignment"], answer["protocol_name"]) == ("made", True, "range")
    assert [each["member_id"] for each in answer["members"]] == ["b", "made"]
    assert one.classic is not None
    plan = one.classic.downgrade
    assert plan is not None
    assert not plan.is_rebalancing
    assert {member.member_id: given_to(member.assignment) for member in plan.members} == {
        "made": {"t": [0, 1]},
        "b": {"t": [2, 3]},
    }
    one.compact()
    assert [record for record in one.log if record.value is not None] == []


def test_group_rebalances_when_its_last_static_member_reverts_and_cannot_skip_the_assignment(one):
    static_pair(one)
    answer = one.join_classic("", instance_id="i", protocols=MINE_FIRST)
    assert (answer["leader"], answer["protocol_name"]) == ("", "range")
    assert one.classic is not None
    assert one.classic.downgrade is not None
    assert one.classic.downgrade.is_rebalancing


def test_group_without_remaining_members_is_not_downgraded(one):
    upgraded_pair(one)
    assert [answer["error_code"] for answer in one.leave_classic(("a", None), ("b", None))] == [ErrorCode.none] * 2
    assert one.classic is None
    assert not one.group.state.members


def test_the_protocol_is_one_that_all_have():
    def member(name: str, *protocols: str) -> Member:
        return Member(name, classic=ClassicMetadata(1, tuple((one, b"") for one in protocols)))

    assert common_protocol([member("a", "x", "y"), member("b", "y", "z")]) == "y"
    assert common_protocol([member("a", "x", "y"), member("b", "y", "x"), member("c", "y", "x")]) == "y"


# ------------------------------------------------------------------------------------------------------ classic members


def test_a_classic_member_joins_a_consumer_group(one):
    one.join("c", "t")
    answer = one.join_classic("", "t", requires_known_member_id=True)
    assert (answer["error_code"], answer["member_id"]) == (ErrorCode.member_id_required, "made")
    assert "made" not in one.group.state.members
    answer = one.join_classic("made", "t", requires_known_member_id=True)
    assert (answer["generation_id"], answer["protocol_name"], answer["leader"]) == (3, "range", "")
    assert one.sync_classic("made", 3) == {}
    assert one.heartbeat_classic("made", 3) is ErrorCode.none, "what it waits for is held"
    one.heartbeat("c", 2)
    one.heartbeat("c", 2, owned=parts("t", 0, 1))
    assert one.heartbeat_classic("made", 3) is ErrorCode.rebalance_in_progress, "it is free now"
    answer = one.join_classic("made", "t")
    assert one.sync_classic("made", answer["generation_id"]) == {"t": [2, 3]}


def test_protocols_that_do_not_fit(one):
    upgraded_pair(one)
    for said in (
        {"protocol_type": "connect"},
        {"protocols": ()},
        {"protocols": (("mine", subscription("t")),)},
        {"protocols": (("range", b"\x00\x01\xff\xff"),)},
    ):
        with refused(ErrorCode.inconsistent_group_protocol):
            one.join_classic("d", "t", **said)
    for said in ({"protocol_type": "connect"}, {"protocol_name": "sticky"}):
        with refused(ErrorCode.inconsistent_group_protocol):
            one.sync_classic("a", 7, **said)


def test_classic_request_of_a_member_that_is_not_classic_is_refused(one):
    one.join("c", "t")
    with refused(ErrorCode.unknown_member_id, "does not use the classic protocol"):
        one.heartbeat_classic("c", 2)
    with refused(ErrorCode.unknown_member_id):
        one.sync_classic("x", 1)
    upgraded = Migrating(Topics(t=4))
    upgraded_pair(upgraded)
    with refused(ErrorCode.illegal_generation):
        upgraded.heartbeat_classic("a", 6)


def test_topics_that_grow_are_noticed_where_all_are_classic(one):
    upgraded_pair(one)
    one.topics.put("other", 1)
    assert one.heartbeat_classic("a", 7) is ErrorCode.none
    one.topics.put("t", 6)
    assert one.heartbeat_classic("a", 7) is ErrorCode.rebalance_in_progress
    answer = one.join_classic("a", "t", owned={"t": [0, 1]})
    assert answer["generation_id"] == 8
    assert len(one.sync_classic("a", 8)["t"]) == 3
    assert one.heartbeat_classic("a", 8) is ErrorCode.none


def test_leaving_by_instance_id_alone(one):
    one.upgrade(
        classic_member("a", parts("t", 0), one.topics, instance_id="i"),
        classic_member("b", parts("t", 1), one.topics, instance_id="j"),
        classic_member("c", parts("t", 2), one.topics),
    )
    one.join("d", "t")
    answers = one.leave_classic(("", "i"), ("x", "j"), ("x", None), ("", "k"))
    assert [answer["error_code"] for answer in answers] == [
        ErrorCode.none,
        ErrorCode.fenced_instance_id,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
    ]
    assert sorted(one.group.state.members) == ["b", "c", "d"]
    assert one.leave_classic(("x", None))[0]["error_code"] is ErrorCode.unknown_member_id


def test_classic_member_that_is_notified_to_rejoin_and_does_not_is_removed(one):
    one.upgrade(classic_member("a", parts("t", 0, 1, 2, 3), one.topics, rebalance_timeout_ms=20_000))
    one.join("c", "t")
    for _ in range(4):
        assert one.heartbeat_classic("a", 7) is ErrorCode.rebalance_in_progress
        one.heartbeat("c", 8)
        assert one.pass_time(4_999) == []
    assert one.pass_time(4) == ["a"]


def test_a_classic_member_that_joins_and_never_syncs(one):
    one.join("c", "t")
    one.join_classic("made", "t", rebalance_timeout_ms=15_000, session_timeout_ms=10_000)
    for _ in range(2):
        one.heartbeat_classic("made", 3)
        assert one.pass_time(7_000) == []
    assert one.pass_time(1_000) == ["made"]


def test_classic_member_that_synced_is_limited_only_by_its_session_timeout(one):
    one.join("c", "t")
    one.join_classic("made", "t", rebalance_timeout_ms=5_000, session_timeout_ms=10_000)
    one.sync_classic("made", 3)
    assert one.pass_time(9_999) == []
    assert one.pass_time(1) == ["made"]


def test_records_of_an_upgrade_stand_in_kafkas_order(one):
    upgraded_pair(one)

    def kinds(records: list[Record]) -> list[int]:
        return [decode(record).kind.value for record in records]

    assert kinds(one.log) == [5, 5, 3, 7, 7, 6, 8, 8]
    assert kinds(one.group.tombstones()) == [8, 8, 7, 7, 6, 5, 5, 3]
