"""What `yak demo groups` prints of a group, without running one."""

from dataclasses import replace

import pytest

from yak.commands.demo_groups_view import handover_lines, member_lines, verdict_lines, verdict_rows
from yak.commands.isr_view import BAD, GOOD
from yak.local.demo.group_ledger import PartitionVerdict
from yak.local.demo.groups_result import (
    GroupsDemoResult,
    GroupsDemoSettings,
    GroupsTimes,
    Handover,
    KilledCoordinator,
    KilledMember,
    MemberRow,
)


def result(commits_lost=0):
    return GroupsDemoResult(
        GroupsDemoSettings(6.0, 6000),
        (
            PartitionVerdict(0, ("member-2", "member-3"), 447, 449, 0, 1, 3, 2),
            PartitionVerdict(1, ("member-1",), 446, 440, 6, 0, 0, 0),
        ),
        KilledMember("member-2", 41, (Handover(0, 8, 10, "member-3", 8),)),
        KilledCoordinator(3, 51, True, 1, 0, 0),
        commits_lost,
        GroupsTimes(start_ms=2198.4, taken_over_ms=6012.3, next_commit_ms=191.2, total_ms=15_040.0),
        "h:1",
        "/d",
    )


def test_members_are_shown_with_what_they_read_and_the_dead_one_as_such():
    lines = member_lines([MemberRow("member-1", 41, (0, 3, 4), 371), MemberRow("member-2", 42, (), 20, is_killed=True)])
    assert [line for line, _ in lines] == [
        "MEMBER    PID  PARTITIONS  MESSAGES READ",
        "member-1   41  0, 3, 4               371",
        "member-2   42  killed                 20",
    ]
    assert [colour for _, colour in lines] == [GOOD, GOOD, BAD]


def test_a_member_without_a_partition_is_shown_as_such():
    lines = member_lines([MemberRow("member-1", None, (), 0)])
    assert "\u2013" in lines[1][0]
    assert lines[1][1] == BAD


def test_a_partition_is_shown_with_its_commit_and_where_it_went_on():
    lines = handover_lines([Handover(1, 174, 177, "member-3", 174), Handover(4, 174, 176, "member-1", 175)])
    assert [line for line, _ in lines] == [
        "PARTITION  LAST COMMIT  WAS READ TO  GOES ON WITH  FROM  READ AGAIN",
        "        1          174          177  member-3       174           3",
        "        4          174          176  member-1       175           2",
    ]
    assert [colour for _, colour in lines] == [GOOD, GOOD, BAD]


@pytest.mark.parametrize("lines_of", [member_lines, handover_lines])
def test_nothing_to_show_is_no_line(lines_of):
    assert lines_of([]) == []


def test_the_table_of_the_verdict_has_a_row_for_each_partition():
    first = verdict_rows(result().verdicts)[0]
    assert first == {
        "partition": 0,
        "read_by": "2, 3",
        "acknowledged": 447,
        "read": 449,
        "lost": 0,
        "twice_committed": 1,
        "twice_uncommitted": 3,
    }


def test_the_verdict_says_what_was_counted_and_measured_in_lines_that_fit():
    lines = verdict_lines(result())
    assert lines[0] == "acked 893, read 889, lost 6, committed and read again 1"
    assert lines[1] == "read again because it was not committed yet: 3"
    assert lines[-2] == "the dead member's partitions went to the others in 6012 ms (session 6 s)"
    assert lines[-1] == "from the kill of the coordinator to the next commit 191 ms"
    assert not [line for line in lines if len(line) > 74]


def test_commits_that_were_lost_are_said():
    assert not [line for line in verdict_lines(result()) if "commits lost" in line]
    assert "commits lost with the coordinator: 2" in verdict_lines(replace(result(), commits_lost=2))


@pytest.mark.parametrize(
    "words",
    [
        ("groups", "--session-timeout", "1s"),
        ("groups", "--session-timeout", "3m"),
        ("groups", "--session-timeout", "soon"),
        ("groups", "--session-timeout", "6s", "--fast"),
        ("groups", "--duration", "5s", "--fast"),
        ("member", "--group", "g", "--topic", "t", "--name", "m", "--session-timeout", "1s"),
    ],
)
def test_what_cannot_be_is_a_usage_error(yak, words):
    ran = yak("demo", *words)
    assert ran.code == 2
    assert ran.err.startswith("error[")
