"""What members of a consumer group subscribe to: topics that come, grow and go, and expressions."""

import os
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path

from tests.unit.groups.consumer.group_model import Coordinator, Topics, assigned, parts
from tests.unit.groups.consumer.refusals import refused
from yak.errors import ErrorCode
from yak.groups.consumer import subscriptions
from yak.groups.consumer.partitions import NO_PARTITIONS
from yak.groups.consumer.records import Change, Kind, MemberValue, PartitionMetadataValue, RegexValue, encode
from yak.groups.consumer.regexes import compiled
from yak.groups.consumer.state import GroupState

# ------------------------------------------------------------------------------------------------------- topics


def test_a_member_that_means_no_topic_is_a_member_all_the_same(one):
    answer = one.join("a")
    assert (answer.member_epoch, assigned(answer)) == (1, NO_PARTITIONS), "the epoch of a new group (ModernGroup.java)"
    one.fail_over()
    assert (one.group.state.state_name, one.group.state.epoch) == ("Stable", 1)
    assert one.heartbeat("a", 1, topics=["t"]).member_epoch == 2


def test_group_topics_are_those_of_its_members_without_iterating_over_all_members():
    state = GroupState("g")
    empty = dict.fromkeys(MemberValue.__dataclass_fields__) | {"topic_regex": ""}

    def replay(member_id: str, *topics: str) -> None:
        value = MemberValue(**(empty | {"topic_names": topics})) if topics else None
        state.replay(Change(Kind.MEMBER, "g", member_id, value))

    class Members(dict):
        def values(self):
            raise AssertionError("all members are searched")

    state.members = Members()
    replay("a", "t", "u")
    replay("b", "u", "v")
    replay("c", "w")
    assert state.topic_names() == {"t", "u", "v", "w"}
    replay("a", "t", "x")
    replay("c")
    assert state.topic_names() == {"t", "u", "v", "x"}
    replay("b")
    assert state.topic_names() == {"t", "x"}
    assert state.is_subscribed_to("x")
    assert not state.is_subscribed_to("u")
    replay("a")
    assert state.topic_names() == set()


def test_topics_that_are_not_there_count_for_nothing_until_they_are(one):
    answer = one.join("a", "t", "later")
    assert assigned(answer) == parts("t", 0, 1, 2, 3)
    one.topics.put("later", 1)
    answer = one.heartbeat("a", 2)
    assert (answer.member_epoch, assigned(answer)) == (3, parts("t", 0, 1, 2, 3) | parts("later", 0))


def test_a_topic_that_grows_is_noticed_at_the_next_heartbeat(one):
    one.join("a", "t")
    one.topics.put("t", 6)
    assert assigned(one.heartbeat("a", 2)) == parts("t", *range(6))


def test_partitions_of_a_deleted_topic_are_revoked_from_the_member(one):
    one.topics.put("u", 1)
    one.join("a", "t", "u")
    one.topics.remove("u")
    assert assigned(one.heartbeat("a", 2)) == parts("t", 0, 1, 2, 3)
    assert one.heartbeat("a", 2, owned=parts("t", 0, 1, 2, 3)).member_epoch == 3


def test_a_change_of_other_topics_does_not_move_the_epoch(one):
    one.join("a", "t")
    one.topics.put("u", 3)
    assert one.heartbeat("a", 2).member_epoch == 2
    assert one.group.state.epoch == 2


def test_member_can_change_its_subscribed_topics(one):
    one.topics.put("u", 2)
    one.join("a", "t")
    answer = one.heartbeat("a", 2, topics=["u"])
    assert (answer.member_epoch, assigned(answer)) == (2, NO_PARTITIONS), "first it gives back"
    answer = one.heartbeat("a", 2, owned=frozenset())
    assert (answer.member_epoch, assigned(answer)) == (3, parts("u", 0, 1))


def test_topics_as_kafka_4_0_listed_them_are_taken_back(one):
    one.join("a", "t")
    one.group.replay(Change(Kind.PARTITION_METADATA, "g", "", PartitionMetadataValue(b"\x01\x00")))
    one.topics.put("x", 1)
    one.heartbeat("a", 2)
    assert encode(Change(Kind.PARTITION_METADATA, "g", "", None)) in one.log
    assert not one.group.state.has_partition_metadata


# -------------------------------------------------------------------------------------------------- expressions


def test_an_expression_is_resolved_at_once(one):
    one.topics.put("tx", 1)
    answer = one.heartbeat("a", 0, regex="t.?", owned=frozenset(), rebalance_timeout_ms=1_000)
    assert (answer.member_epoch, assigned(answer)) == (2, parts("t", 0, 1, 2, 3) | parts("tx", 0))


def test_an_expression_without_topics_raises_no_epoch(one):
    """As GroupMetadataManager.updateRegularExpressions, also for a member that has topics by name."""
    assert one.heartbeat("a", 0, regex="x.*", owned=frozenset(), rebalance_timeout_ms=1_000).member_epoch == 1
    assert one.join("b", "t").member_epoch == 2
    assert one.heartbeat("b", 2, regex="y.*").member_epoch == 2
    one.fail_over()
    one.topics.put("x1", 1)
    one.pass_time(10_000)
    assert assigned(one.heartbeat("a", 1)) == parts("x1", 0)
    assert one.group.state.epoch == 3


def test_topics_made_later_are_found_within_ten_seconds(one):
    one.heartbeat("a", 0, regex="t.*", owned=frozenset(), rebalance_timeout_ms=1_000)
    one.topics.put("tx", 1)
    assert one.heartbeat("a", 2).assignment is None
    one.pass_time(10_000)
    assert assigned(one.heartbeat("a", 2)) == parts("t", 0, 1, 2, 3) | parts("tx", 0)


def test_looking_again_and_finding_the_same_writes_nothing(one):
    one.heartbeat("a", 0, regex="t.*", owned=frozenset(), rebalance_timeout_ms=1_000)
    one.topics.put("other", 1)
    one.pass_time(10_000)
    written = len(one.log)
    one.heartbeat("a", 2)
    assert len(one.log) == written


def test_regex_that_no_member_uses_is_removed(one):
    one.topics.put("u", 1)
    one.heartbeat("a", 0, regex="t.*", owned=frozenset(), rebalance_timeout_ms=1_000)
    one.heartbeat("b", 0, regex="u.*", owned=frozenset(), rebalance_timeout_ms=1_000)
    assert sorted(one.group.state.regexes) == ["t.*", "u.*"]
    one.heartbeat("a", 2, regex="u.*")
    assert sorted(one.group.state.regexes) == ["u.*"]
    one.heartbeat("b", -1)
    assert sorted(one.group.state.regexes) == ["u.*"]


def test_names_and_an_expression_together(one):
    one.topics.put("u", 1)
    answer = one.join("a", "t", regex="u")
    assert assigned(answer) == parts("t", 0, 1, 2, 3) | parts("u", 0)
    assert assigned(one.heartbeat("a", 2, regex="")) == parts("t", 0, 1, 2, 3)


def test_an_expression_that_is_refused_changes_nothing(one):
    one.join("a", "t")
    for expression in ("(", r"(a)\1"):
        with refused(ErrorCode.invalid_regular_expression):
            one.heartbeat("a", 2, regex=expression)
    assert one.heartbeat("a", 2).member_epoch == 2


def test_a_recorded_expression_that_cannot_be_compiled_keeps_its_topics(one):
    one.join("a", "t")
    one.join("b", "t")
    value = replace(one.member("b").metadata(), topic_names=(), topic_regex="(?=t)t")
    one.group.replay(Change(Kind.MEMBER, "g", "b", value))
    one.group.replay(Change(Kind.REGEX, "g", "(?=t)t", RegexValue(("t",), 1, 1)))
    one.pass_time(20_000)
    one.topics.put("x", 1)
    assert one.heartbeat("a", 2).member_epoch == 2, "others go on"
    assert one.group.state.regexes["(?=t)t"].topics == ("t",)


COSTLY = "(a?){999}!"
"""An attacker's: as many states as characters, so that RE2 has to walk them all for every character of every name."""


def test_an_expression_too_large_for_all_names_together_is_refused(one):
    one.join("a", "t")
    for number in range(400):
        one.topics.put(f"{number:a>249}", 1)
    with refused(ErrorCode.invalid_regular_expression, "too large to be compared with 401 topics"):
        one.heartbeat("a", 2, regex=COSTLY)
    assert one.group.state.regexes == {}
    one.heartbeat("a", 2, regex="a*a*a*a*!")
    assert one.group.state.regexes["a*a*a*a*!"].topics == ()


def test_an_expression_resolved_before_topics_became_too_many_keeps_its_topics(one):
    one.heartbeat("a", 0, regex=COSTLY + "|t", owned=frozenset(), rebalance_timeout_ms=1_000)
    for number in range(400):
        one.topics.put(f"{number:a>249}", 1)
    one.pass_time(10_000)
    assert one.heartbeat("a", 2).member_epoch == 2
    assert one.group.state.regexes[COSTLY + "|t"].topics == ("t",)


def test_expressions_of_many_members_are_resolved_over_several_heartbeats(one, monkeypatch):
    expressions = [f"t|x{number}" for number in range(6)]
    for number, expression in enumerate(expressions):
        one.heartbeat(f"m{number}", 0, regex=expression, owned=frozenset(), rebalance_timeout_ms=100_000)
    for number in range(6):
        one.topics.put(f"x{number}", 1)
    one.pass_time(10_000)
    matched: list[int] = []
    monkeypatch.setattr(subscriptions, "STEPS_MAX", 2 * compiled(expressions[0]).steps(one.topics.names()))
    for _ in range(4):
        one.heartbeat("m0", one.member("m0").epoch)
        matched.append(sum(len(each.topics) == 2 for each in one.group.state.regexes.values()))
    assert matched == [2, 4, 6, 6]
    assert one.group.seen.round_version is None


def test_topics_made_while_expressions_are_resolved_are_found_by_the_next_round(one, monkeypatch):
    for name in ("a", "b"):
        one.heartbeat(name, 0, regex=f"{name}.", owned=frozenset(), rebalance_timeout_ms=100_000)
    one.topics.put("a1", 1)
    one.pass_time(10_000)
    monkeypatch.setattr(subscriptions, "STEPS_MAX", 1)
    one.heartbeat("a", 1)
    one.topics.put("a2", 1)
    one.heartbeat("a", one.member("a").epoch)
    assert one.group.state.regexes["a."].topics == ("a1",)
    one.pass_time(10_000)
    one.heartbeat("a", one.member("a").epoch)
    assert one.group.state.regexes["a."].topics == ("a1", "a2")


# --------------------------------------------------------------------------------------------------------- both


def test_group_is_subscribed_to_its_topic_names_and_regex_matches(one):
    one.topics.put("u", 1)
    one.join("a", "t", regex="u")
    assert [name for name in ("t", "u", "v") if one.group.state.is_subscribed_to(name)] == ["t", "u"]


def test_records_do_not_depend_on_the_order_of_sets():
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


def test_join_reads_a_topic_as_often_with_many_members_as_with_few():
    class CountedTopics(Topics):
        lookups = 0

        def topic_id(self, name: str) -> uuid.UUID | None:
            self.lookups += 1
            return super().topic_id(name)

    topics = CountedTopics(**{f"t{number}": 1 for number in range(20)})
    coordinator = Coordinator(topics)
    lookups = []
    for number in range(30):
        topics.lookups = 0
        coordinator.join(f"m{number}", *topics.ids)
        lookups.append(topics.lookups)
    assert lookups[29] == lookups[2]
