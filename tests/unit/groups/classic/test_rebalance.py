"""A classic group, one rule a test: who joins, who leads, who is waited for, and who is given up."""

import pytest

from tests.unit.groups.classic.rig import NONE, Rig
from yak.errors import ErrorCode
from yak.groups.classic.group import MOVES, ClassicSettings, ClassicState


def state(rig: Rig) -> str:
    return rig.group.state.value


# --------------------------------------------------------------------------------------------------------- coming in


def test_a_lone_member_leads_and_gets_what_it_assigned(rig):
    joined = rig.join()
    assert joined["generation_id"] == 1
    assert joined["leader"] == joined["member_id"] == "c-1"
    assert [member["member_id"] for member in joined["members"]] == ["c-1"]
    assert joined["protocol_name"] == "range"
    assert state(rig) == "CompletingRebalance"
    synced = rig.sync(joined, {"c-1": b"all"})
    assert (synced.error, synced["assignment"]) == (NONE, b"all")
    assert state(rig) == "Stable"


def test_a_new_member_is_first_only_given_an_id(rig):
    asked = rig.join(twice=True)
    assert asked.error == ErrorCode.member_id_required
    assert state(rig) == "Empty"
    joined = rig.join(asked["member_id"], twice=True)
    assert joined.error == NONE
    assert joined["member_id"] == asked["member_id"]
    assert not rig.group.pending


def test_an_id_that_is_not_used_is_forgotten_after_the_session(rig):
    asked = rig.join(twice=True, session_ms=6_000)
    rig.wait(5_999)
    assert rig.group.pending
    rig.wait(1)
    assert not rig.group.pending
    assert rig.join(asked["member_id"], twice=True).error == ErrorCode.unknown_member_id


def test_only_the_leader_receives_the_list_of_members(rig):
    first, second = rig.stable(2)
    assert len(first["members"]) == 2
    assert second["members"] == []
    assert first["generation_id"] == second["generation_id"]


def test_rebalance_ends_when_the_last_member_has_rejoined(rig):
    first, second = rig.stable(2)
    third = rig.join()
    assert third.fields is None
    assert rig.heartbeat(first["member_id"], first["generation_id"]) == ErrorCode.rebalance_in_progress
    again = rig.join(first["member_id"])
    assert again.fields is None
    last = rig.join(second["member_id"])
    assert {each["generation_id"] for each in (again, last, third)} == {first["generation_id"] + 1}


def test_a_first_rebalance_waits_for_more_members_and_longer_while_they_come():
    rig = Rig(initial_rebalance_delay_ms=3_000)
    first = rig.join(rebalance_ms=7_000)
    rig.wait(2_000)
    second = rig.join(rebalance_ms=7_000)
    rig.wait(3_000)
    assert first.fields is None
    third = rig.join(rebalance_ms=7_000)
    rig.wait(2_000)  # 7 s after the first: the rebalance time-out ends it
    assert [each["generation_id"] for each in (first, second, third)] == [1, 1, 1]


def test_first_rebalance_does_not_wait_longer_when_no_member_joins():
    rig = Rig(initial_rebalance_delay_ms=3_000)
    first = rig.join()
    rig.wait(2_999)
    assert first.fields is None
    rig.wait(1)
    assert first["generation_id"] == 1


def test_no_common_strategy_is_inconsistent(rig):
    rig.stable()
    assert rig.join(protocols=(("sticky", b""),)).error == ErrorCode.inconsistent_group_protocol
    assert rig.join(kind="connect").error == ErrorCode.inconsistent_group_protocol
    assert Rig().join(protocols=()).error == ErrorCode.inconsistent_group_protocol
    assert Rig().join(kind="").error == ErrorCode.inconsistent_group_protocol


def test_the_strategy_is_the_one_that_most_members_like_best_of_those_that_all_know():
    rig = Rig(initial_rebalance_delay_ms=10)
    joins = [
        rig.join(protocols=(("a", b""), ("b", b""), ("c", b""))),
        rig.join(protocols=(("c", b""), ("b", b""))),
        rig.join(protocols=(("c", b""), ("b", b""), ("a", b""))),
    ]
    rig.wait(1_000)
    assert {each["protocol_name"] for each in joins} == {"c"}


def test_full_group_accepts_no_more_members():
    rig = Rig(max_size=2)
    first, second = rig.stable(2)
    assert rig.join().error == ErrorCode.group_max_size_reached
    assert rig.heartbeat(first["member_id"], first["generation_id"]) == NONE
    assert rig.leave(second["member_id"]) == NONE
    assert rig.join().error is None


# ------------------------------------------------------------------------------------------------------- those that go


def test_silent_member_is_removed_after_its_session_timeout(rig):
    first, second = rig.stable(2, session_ms=10_000)
    rig.wait(9_000)
    assert rig.heartbeat(first["member_id"], first["generation_id"]) == NONE
    rig.wait(1_001)
    assert state(rig) == "PreparingRebalance"
    assert rig.heartbeat(second["member_id"], second["generation_id"]) == ErrorCode.unknown_member_id
    again = rig.join(first["member_id"])
    assert again["leader"] == first["member_id"]
    assert [member["member_id"] for member in again["members"]] == [first["member_id"]]


@pytest.mark.parametrize("request_waits_for", ["assignment", "joins"])
def test_member_whose_request_waits_outlives_another_whose_session_ends_in_the_same_step(rig, request_waits_for):
    first, second = rig.stable(2, session_ms=10_000)
    if request_waits_for == "assignment":
        second = rig.join(second["member_id"], protocols=(("range", b"changed"),))
        first = rig.join(first["member_id"])
        waiting = rig.sync(second)
    else:
        waiting = rig.join(second["member_id"], protocols=(("range", b"changed"),))
    rig.now_ms += 10_000
    rig.group.on_time(rig.now_ms)
    assert waiting.error == (ErrorCode.rebalance_in_progress if request_waits_for == "assignment" else NONE)
    assert list(rig.group.members) == [second["member_id"]]


def test_member_that_does_not_rejoin_is_removed_at_the_end_of_the_rebalance(rig):
    first, second = rig.stable(2, rebalance_ms=4_000, session_ms=10_000)
    third = rig.join(rebalance_ms=4_000)
    again = rig.join(first["member_id"], rebalance_ms=4_000)
    rig.wait(4_000)
    assert again.error == third.error == NONE
    assert second["member_id"] not in rig.group.members


def test_member_that_does_not_request_its_assignment_is_removed():
    rig = Rig(initial_rebalance_delay_ms=10)
    first, second = rig.join(rebalance_ms=5_000, session_ms=30_000), rig.join(rebalance_ms=5_000, session_ms=30_000)
    rig.wait(5_000)
    assert rig.sync(first, {}).fields is not None
    assert state(rig) == "Stable"
    rig.wait(100)
    assert state(rig) == "PreparingRebalance"
    assert list(rig.group.members) == [first["member_id"]]
    assert rig.sync(second).error == ErrorCode.unknown_member_id


def test_group_is_empty_after_its_last_member_left_and_the_empty_group_is_written(rig):
    (only,) = rig.stable()
    assert rig.leave(only["member_id"]) == NONE
    assert state(rig) == "Empty"
    assert rig.reload().group.members == {}
    assert rig.reload().group.generation == only["generation_id"] + 1


def test_leaving_twice_is_unknown(rig):
    (only,) = rig.stable()
    rig.leave(only["member_id"])
    assert rig.leave(only["member_id"]) == ErrorCode.unknown_member_id


def test_a_member_that_waits_for_the_others_is_not_silent(rig):
    first, _second = rig.stable(2, session_ms=10_000, rebalance_ms=40_000)
    third = rig.join(session_ms=10_000, rebalance_ms=40_000)
    again = rig.join(first["member_id"], session_ms=10_000, rebalance_ms=40_000)
    rig.wait(9_999)
    assert again.fields is None
    rig.wait(1)  # the second member's session is over: those that wait go on
    assert again.error == third.error == NONE


def test_the_connection_of_a_member_that_never_had_an_answer_is_the_member(rig):
    (first,) = rig.stable()
    new = rig.join(twice=False)
    rig.group.ticket_lost(rig.group.members["c-2"], new, rig.now_ms)
    assert list(rig.group.members) == [first["member_id"]]
    assert rig.join(first["member_id"])["generation_id"] == first["generation_id"] + 1


def test_a_member_whose_connection_breaks_while_it_waits_has_its_session_to_come_back(rig):
    first, second = rig.stable(2, session_ms=10_000)
    rig.join()
    again = rig.join(first["member_id"])
    rig.group.ticket_lost(rig.group.members[first["member_id"]], again, rig.now_ms)
    other = rig.join(second["member_id"])
    rig.wait(9_000)
    assert other.fields is None
    back = rig.join(first["member_id"])
    assert back.error == other.error == NONE


@pytest.mark.parametrize("reconnects", [False, True])
def test_a_new_member_waits_for_the_others_longer_than_its_session(rig, reconnects):
    (first,) = rig.stable(1, rebalance_ms=300_000, session_ms=10_000)
    told = rig.join(twice=True, client="b", rebalance_ms=300_000, session_ms=10_000)
    waiting = rig.join(told["member_id"], twice=True, client="b", rebalance_ms=300_000, session_ms=10_000)
    if reconnects:
        rig.wait(1_000)
        rig.group.ticket_lost(rig.group.members[told["member_id"]], waiting, rig.now_ms)
        waiting = rig.join(told["member_id"], twice=True, client="b", rebalance_ms=300_000, session_ms=10_000)
    for _ in range(4):
        rig.wait(5_000)
        rig.heartbeat(first["member_id"], first["generation_id"])
    assert waiting.fields is None
    rig.join(first["member_id"], rebalance_ms=300_000, session_ms=10_000)
    assert waiting.error == NONE


def test_a_static_member_that_returns_behind_the_first_delay_is_answered_at_once():
    rig = Rig(initial_rebalance_delay_ms=3_000)
    joining = rig.join(instance="i", rebalance_ms=300_000, session_ms=45_000)
    (member,) = rig.group.members.values()
    rig.wait(1_000)
    rig.group.ticket_lost(member, joining, rig.now_ms)
    rig.wait(5_000)
    assert rig.join(instance="i", rebalance_ms=300_000, session_ms=45_000).error == NONE


# ----------------------------------------------------------------------------------------------------- the assignment


def test_no_member_receives_an_assignment_that_is_not_committed(rig):
    joined = rig.join()
    rig.holds_writes = True
    synced = rig.sync(joined, {"c-1": b"x"})
    assert synced.fields is None
    assert state(rig) == "CompletingRebalance"
    rig.flush()
    assert synced["assignment"] == b"x"


def test_an_assignment_that_could_not_be_written_begins_another_rebalance(rig):
    joined = rig.join()
    rig.holds_writes = True
    synced = rig.sync(joined, {"c-1": b"x"})
    rig.flush(ErrorCode.coordinator_not_available)
    assert synced.error == ErrorCode.coordinator_not_available
    assert state(rig) == "PreparingRebalance"
    assert rig.group.members["c-1"].assignment == b""


def test_an_assignment_of_a_generation_that_is_over_counts_for_nothing(rig):
    joined = rig.join()
    rig.holds_writes = True
    synced = rig.sync(joined, {"c-1": b"x"})
    newcomer = rig.join()
    assert synced.error == ErrorCode.rebalance_in_progress
    rig.flush()
    assert state(rig) == "PreparingRebalance"
    assert newcomer.fields is None


def test_sync_with_another_strategy_during_a_rebalance_makes_the_member_rejoin(rig):
    """The error of another strategy ends a Java client, and a group that reverts to the classic protocol may change it."""
    (joined,) = rig.stable()
    rig.join()
    assert rig.sync(joined, protocol="roundrobin").error == ErrorCode.rebalance_in_progress


def test_members_get_the_assignment_of_the_last_record_when_the_leader_sent_two(rig):
    """The leader lost its connection, and rejoined before the first one was committed."""
    joined = rig.join()
    rig.holds_writes = True
    rig.sync(joined, {"c-1": b"x"})
    synced = rig.sync(rig.join("c-1"), {"c-1": b"y"})
    rig.flush()
    assert state(rig) == "Stable"
    assert synced["assignment"] == b"y" == rig.reload().group.members["c-1"].assignment


def test_a_sync_of_another_generation_or_strategy_is_refused(rig):
    joined = rig.join()
    assert rig.sync(joined, generation=7).error == ErrorCode.illegal_generation
    assert rig.sync(joined, protocol="roundrobin").error == ErrorCode.inconsistent_group_protocol
    assert rig.sync(joined, protocol_type="connect").error == ErrorCode.inconsistent_group_protocol
    assert rig.sync(joined, member_id="x").error == ErrorCode.unknown_member_id
    assert rig.sync(joined, {"c-1": b"y"}, protocol=None, protocol_type=None)["assignment"] == b"y"


def test_member_that_syncs_late_receives_the_current_assignment(rig):
    first, _second = rig.stable(2)
    assert rig.sync(first)["assignment"] == first["member_id"].encode()


def test_follower_that_rejoins_unchanged_in_a_stable_group_starts_no_rebalance(rig):
    first, second = rig.stable(2)
    again = rig.join(second["member_id"])
    assert again["generation_id"] == second["generation_id"]
    assert state(rig) == "Stable"
    assert rig.join(first["member_id"]).fields is None
    assert state(rig) == "PreparingRebalance"


def test_member_that_rejoins_with_other_metadata_starts_a_rebalance(rig):
    _first, second = rig.stable(2)
    rig.join(second["member_id"], protocols=(("range", b"other"), ("roundrobin", b"rr")))
    assert state(rig) == "PreparingRebalance"


def test_stale_heartbeat_returns_an_error(rig):
    (only,) = rig.stable()
    assert rig.heartbeat(only["member_id"], 0) == ErrorCode.illegal_generation
    assert rig.heartbeat("who", 1) == ErrorCode.unknown_member_id


# ---------------------------------------------------------------------------------------------------- static members


def test_static_member_that_rejoins_keeps_its_place_and_starts_no_rebalance(rig):
    (first,) = rig.stable(instance="i")
    back = rig.join(instance="i")
    assert back["generation_id"] == first["generation_id"]
    assert back["member_id"] != first["member_id"]
    assert back["skip_assignment"] is True
    assert state(rig) == "Stable"
    assert rig.sync(back)["assignment"] == first["member_id"].encode()
    assert rig.heartbeat(first["member_id"], 1, "i") == ErrorCode.fenced_instance_id
    assert list(rig.reload().group.members) == [back["member_id"]]


def test_static_leader_that_cannot_skip_the_assignment_is_not_notified_that_it_leads(rig):
    (first,) = rig.stable(instance="i")
    back = rig.join(instance="i", skips=False)
    assert back["leader"] == first["member_id"]
    assert back["members"] == []
    assert back["skip_assignment"] is False


def test_a_static_member_that_comes_back_wanting_something_else_begins_a_rebalance():
    def subscription(topic: str) -> bytes:
        return b"\0\0" + b"\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode() + b"\xff\xff\xff\xff"

    rig = Rig()
    rig.stable(instance="i", protocols=(("range", subscription("t")),))
    back = rig.join(instance="i", protocols=(("range", subscription("u")),))
    assert back["generation_id"] == 2


def test_a_static_member_is_waited_for_over_a_rebalance_until_its_session_ends(rig):
    first = rig.stable(instance="i", session_ms=30_000, rebalance_ms=5_000)[0]
    newcomer = rig.join(rebalance_ms=5_000, session_ms=30_000)
    rig.wait(5_000)
    assert newcomer["leader"] == newcomer["member_id"]
    assert first["member_id"] in rig.group.members
    rig.sync(newcomer, {})
    rig.wait(25_001)
    assert first["member_id"] not in rig.group.members


def test_a_static_members_id_that_could_not_be_written_is_taken_back(rig):
    (first,) = rig.stable(instance="i")
    rig.holds_writes = True
    back = rig.join(instance="i")
    rig.flush(ErrorCode.coordinator_not_available)
    assert back.error == ErrorCode.coordinator_not_available
    assert rig.heartbeat(first["member_id"], 1, "i") == NONE


def test_an_administrator_takes_a_static_member_out_by_its_instance_id(rig):
    (first,) = rig.stable(instance="i")
    assert rig.leave("", "nobody") == ErrorCode.unknown_member_id
    assert rig.leave("wrong", "i") == ErrorCode.fenced_instance_id
    assert rig.leave("", "i") == NONE
    assert first["member_id"] not in rig.group.members


def test_join_of_a_member_that_is_removed_meanwhile_is_answered_without_a_member_id(rig):
    """As GroupMetadataManager.removeMemberAndUpdateClassicGroup."""
    rig.stable()
    waiting = rig.join(instance="i")
    assert rig.leave("", "i") == NONE
    assert (waiting.error, waiting["member_id"]) == (ErrorCode.unknown_member_id, "")


def test_static_members_that_are_all_away_cause_no_busy_loop(rig):
    rig.stable(instance="i", session_ms=30_000, rebalance_ms=0)
    rig.join(
        rig.group.leader_id or "", instance="i", session_ms=30_000, rebalance_ms=0
    )  # the leader begins a rebalance
    rig.wait(60_000)  # the rig asserts that each look is later than the last


# ------------------------------------------------------------------------------------------------------ another day


def test_another_coordinator_knows_the_group_and_no_member_joins_again(rig):
    first, second = rig.stable(2)
    other = rig.reload()
    for each in (first, second):
        assert other.heartbeat(each["member_id"], each["generation_id"]) == NONE
        assert other.sync(each)["assignment"] == each["member_id"].encode()
    assert other.group.leader_id == first["leader"]
    other.wait(10_000)
    assert other.group.members == {}


def test_group_above_a_lower_group_max_size_rebalances_when_it_is_loaded(rig):
    first, second, third = rig.stable(3)
    rig.settings = ClassicSettings(initial_rebalance_delay_ms=0, max_size=2)
    other = rig.reload()
    assert other.heartbeat(first["member_id"], first["generation_id"]) == ErrorCode.rebalance_in_progress
    left = [other.join(each["member_id"]) for each in (first, second)]
    assert other.join(third["member_id"]).error == ErrorCode.group_max_size_reached
    assert [each["generation_id"] for each in left] == [first["generation_id"] + 1] * 2
    assert list(other.group.members) == [each["member_id"] for each in (first, second)]


def test_group_that_is_unloaded_answers_every_waiting_member(rig):
    rig.stable()
    newcomer = rig.join()
    rig.group.die(ErrorCode.not_coordinator)
    assert newcomer.error == ErrorCode.not_coordinator
    assert rig.group.next_due() is not None


@pytest.mark.parametrize("here", list(ClassicState))
def test_the_table_of_moves_is_kafkas(here):
    kafkas = {
        "Empty": {"PreparingRebalance", "Dead"},
        "PreparingRebalance": {"CompletingRebalance", "Empty", "Dead"},
        "CompletingRebalance": {"Stable", "PreparingRebalance", "Dead"},
        "Stable": {"PreparingRebalance", "Dead"},
        "Dead": set(),
    }
    assert {there.value for there in MOVES[here]} == kafkas[here.value]
