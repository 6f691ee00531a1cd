"""Many members: what one of them asks costs the same in a group of ten thousand, and what is remembered is bounded."""

from __future__ import annotations

import pytest

from tests.unit.groups.classic.rig import NONE, Held, Rig
from yak.errors import ErrorCode
from yak.groups.classic.group import ClassicState
from yak.groups.classic.members import Member, bytes_of
from yak.limits import GROUP_METADATA_BYTES_MAX, GROUP_PENDING_MEMBERS_MAX

MANY = 10_000


class Unread(dict[str, Member]):
    """Members that can be looked up, and not gone through."""

    def _refuse(self, *_: object) -> None:
        raise AssertionError("a request looked at every member")

    __iter__ = values = items = keys = _refuse  # type: ignore[assignment]


def joined(rig: Rig, count: int) -> list[Held]:
    """So many members in one generation; each asked twice."""
    ids = [rig.join(twice=True)["member_id"] for _ in range(count)]
    held = [rig.join(member_id, twice=True) for member_id in ids]
    rig.wait(7_000)
    assert rig.group.state is ClassicState.COMPLETING_REBALANCE
    assert {each.error for each in held} == {NONE}
    return held


def test_ten_thousand_members_settle_and_rebalance():
    rig = Rig(initial_rebalance_delay_ms=3_000)
    held = joined(rig, MANY)
    (leader,) = [each for each in held if each["members"]]
    assert len(leader["members"]) == MANY
    syncs = [rig.sync(each) for each in held if each is not leader]
    rig.sync(leader, {each["member_id"]: each["member_id"].encode() for each in held})
    assert rig.group.state is ClassicState.STABLE
    assert {each.error for each in syncs} == {NONE}
    new = rig.join()
    again = [rig.join(each["member_id"]) for each in held]
    assert {each.error for each in [new, *again]} == {NONE}
    assert len(rig.group.members) == MANY + 1


def test_no_request_iterates_over_every_member():
    rig = Rig(initial_rebalance_delay_ms=3_000)
    first, second = rig.join(twice=True)["member_id"], rig.join(twice=True)["member_id"]
    waits = rig.join(first)
    members = rig.group.members
    rig.group.members = Unread(members)
    joins = rig.join(second)
    assert (waits.fields, joins.fields) == (None, None)
    assert rig.heartbeat(first, 0) == ErrorCode.rebalance_in_progress
    again = rig.join(first)
    assert (waits.error, again.fields) == (ErrorCode.rebalance_in_progress, None)
    member = rig.group.holder_of(again)
    assert member is not None
    rig.group.ticket_lost(member, again, rig.now_ms)
    assert rig.leave(second) == NONE
    assert rig.join(protocols=(("other", b""),)).error == ErrorCode.inconsistent_group_protocol


def test_session_expiry_is_checked_at_intervals_whatever_the_number_of_members():
    rig = Rig(initial_rebalance_delay_ms=3_000)
    held = joined(rig, 2_000)
    for each in held:
        # every millisecond another one's session ends
        rig.group.members[each["member_id"]].deadline_ms = rig.now_ms + 10_000 + len(rig.said)
        rig.said.append("")
    looked_at = 0
    original = rig.group.on_time

    class Counting(type(rig.group)):  # type: ignore[misc]
        __slots__ = ()

        def on_time(self, now_ms: int) -> None:
            nonlocal looked_at
            looked_at += len(self.members)
            original(now_ms)

    rig.group.__class__ = Counting
    rig.wait(13_000)
    assert rig.group.members == {}
    assert looked_at < 2_000 * 200, "2,000 members were gone through for each of them"


def test_unused_member_ids_are_removed_oldest_first(rig):
    oldest = rig.join(twice=True)["member_id"]
    ids = [rig.join(twice=True)["member_id"] for _ in range(GROUP_PENDING_MEMBERS_MAX)]
    assert len(rig.group.pending) == GROUP_PENDING_MEMBERS_MAX
    assert rig.join(oldest).error == ErrorCode.unknown_member_id
    assert rig.join(ids[-1]).fields is None, "it waits for the others that asked"
    rig.wait(10_000)
    assert not rig.group.pending


def test_empty_group_refuses_no_member_because_of_member_ids_that_were_never_used():
    """acceptJoiningMember: to be refused here ends a Java client for good, and the one before it may just have died."""
    rig = Rig(max_size=1)
    rig.join(twice=True)
    second = rig.join(twice=True)
    assert second.error == ErrorCode.member_id_required
    assert rig.join(second["member_id"]).fields is None
    rig.wait(100)
    assert list(rig.group.members) == [second["member_id"]]


def test_a_full_group_is_not_held_up_by_whom_it_sends_away(rig):
    """Its limit was lowered: of those who join anew, the last is sent away, and then all that may are there."""
    held = rig.stable(3)
    rig.group.settings = rig.settings.__class__(initial_rebalance_delay_ms=0, max_size=2)
    again = [rig.join(each["member_id"]) for each in held]
    assert [each.error for each in again] == [NONE, NONE, ErrorCode.group_max_size_reached]
    assert again[-1]["member_id"] == "", "Kafka names no member here"
    assert len(rig.group.members) == 2


@pytest.mark.parametrize("size", [1, 100])
def test_members_say_so_much_and_no_more(rig, size):
    rig.settings = rig.group.settings
    piece = GROUP_METADATA_BYTES_MAX // size - bytes_of((("", b""),))
    held = [rig.join(protocols=(("r", b"x" * (piece - 1)),), instance=f"i{number}") for number in range(size)]
    assert all(each.fields is None or each.error == NONE for each in held)
    assert rig.group.metadata_bytes <= GROUP_METADATA_BYTES_MAX
    assert rig.join(protocols=(("r", b"x" * 10_000),)).error == ErrorCode.group_max_size_reached
    same = rig.join(protocols=(("r", b"y" * (piece - 1)),), instance="i0")
    assert same.error != ErrorCode.group_max_size_reached, "what it said before counts no more"


def test_protocols_without_names_and_metadata_count_for_the_bound_of_a_group_too(rig):
    """12,000 of them are a request of 40 KB, and three objects each."""
    protocols = (("r", b""), *((("", b""),) * 12_000))
    refused = [rig.join(protocols=protocols).error for _ in range(50) if rig.group.metadata_bytes >= 0]
    assert refused[-1] == ErrorCode.group_max_size_reached
    assert len(rig.group.members) < 40


def test_leave_with_an_unused_member_id_starts_no_rebalance(rig):
    rig.stable(2)
    pending = rig.join(twice=True)["member_id"]
    assert rig.leave(pending) == NONE
    assert rig.group.state is ClassicState.STABLE


def test_giving_back_an_id_ends_the_wait_for_it(rig):
    (held,) = rig.stable(1)
    pending = rig.join(twice=True)["member_id"]
    again = rig.join(held["member_id"])
    assert again.fields is None
    rig.leave(pending)
    assert again.error == NONE
