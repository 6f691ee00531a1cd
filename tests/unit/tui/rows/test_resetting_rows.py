"""The wizard that moves offsets: its command line, its target, its preview."""

import shlex

import pytest

from yak.client.groups.reset import Step, Target
from yak.errors import UsageError, YakError
from yak.ids import TopicPartition
from yak.tui.look import Look
from yak.tui.rows.resetting import COLUMNS, WAYS, command, plan_words, step_rows, target, topics_of

LOOK, LOCAL = Look(), Look("local")
O0, O1, O2 = (TopicPartition("orders", number) for number in range(3))
STEPS = [Step(O0, 400, 0, "-100 is before the log, which starts at 0"), Step(O1, 5, 5), Step(O2, None, None, "no")]


def form(to, value="", topics=""):
    return {"to": to, "value": value, "topics": topics}


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (form("earliest"), "yak groups reset audit --all-topics --to-earliest"),
        (
            form("latest", "left over", "orders:0,2 pay"),
            "yak groups reset audit --topic orders:0,2 --topic pay --to-latest",
        ),
        (form("current", topics="orders"), "yak groups reset audit --topic orders --to-current"),
        (form("time", "-15m"), "yak groups reset audit --all-topics --to-timestamp=-15m"),
        (form("offset", "7"), "yak groups reset audit --all-topics --to-offset 7"),
        (form("shift by", "-100"), "yak groups reset audit --all-topics --shift-by=-100"),
        (form("file", "my offsets.csv"), "yak groups reset audit --from-file 'my offsets.csv'"),
    ],
)
def test_each_way_has_its_command_line(values, line):
    assert command("audit", values, LOOK) == line
    assert command("audit", values, LOOK, is_done=True) == f"{line} --execute"


def test_names_are_quoted_and_local_times_are_read_as_local():
    assert shlex.split(command("my group; rm", form("latest"), LOOK))[3] == "my group; rm"
    assert command("g", form("time", "2026-11-20T12:00"), LOCAL).endswith(" --local")


@pytest.mark.parametrize(
    "values",
    [
        form("time"),
        form("time", "noon"),
        form("offset", "-1"),
        form("offset", "x"),
        form("shift by", "1.5"),
        form("file"),
    ],
)
def test_a_value_that_cannot_be_is_refused(values):
    with pytest.raises(UsageError):
        command("g", values, LOOK)


def test_the_form_becomes_a_target():
    assert target(form("earliest"), 0, LOOK, {}) == Target("earliest")
    assert target(form("latest"), 0, LOOK, {}) == Target("latest")
    assert target(form("current"), 0, LOOK, {}) == Target("current")
    assert target(form("offset", "7"), 0, LOOK, {}) == Target("offset", 7)
    assert target(form("shift by", "-7"), 0, LOOK, {}) == Target("shift", -7)
    assert target(form("time", "-1m"), 100_000, LOOK, {}) == Target("timestamp", 40_000)
    assert target(form("time", "1970-01-01T00:01"), 0, LOOK, {}) == Target("timestamp", 60_000)
    assert target(form("file", "f"), 0, LOOK, {O0: 4}) == Target("file", offsets={O0: 4})
    assert all(command("g", form(way, "1"), LOOK) for way in WAYS)
    assert topics_of(form("file", topics=" a:1  b ")) == ["a:1", "b"]


def test_the_preview_shows_old_and_new_and_why_something_stays():
    rows = [[cell.text for cell in row.cells] for row in step_rows(STEPS, None, LOOK)]
    assert rows[0] == [
        "orders",
        "0",
        "400",
        "→",
        "0",
        "-400",
        "→ will be set: -100 is before the log, which starts at 0",
    ]
    assert rows[1][2:] == ["5", "→", "5", "0", "– unchanged"]
    assert rows[2][2:] == ["–", "→", "–", "–", "▲ left alone: no"]
    assert all(len(row) == len(COLUMNS) for row in rows)


def test_afterwards_it_shows_what_was_done():
    failed = YakError("x", "not moved", why="it has members now")
    rows = [row.cells[-1] for row in step_rows([Step(O0, 4, 0), Step(O1, 4, 0)], {O0: None, O1: failed}, LOOK)]
    assert [(cell.text, cell.tone) for cell in rows] == [
        ("✓ set", "good"), ("✗ failed: it has members now", "bad"),
    ]  # fmt: skip


def test_what_it_comes_to_is_said_in_records():
    assert plan_words(STEPS, LOOK) == "1 partition will be moved: 400 records will be read again."
    assert "30 records will be skipped" in plan_words([Step(O0, 0, 30), Step(O1, 5, 1)], LOOK)
    assert "1 partitions get their first offset" in plan_words([Step(O0, None, 30)], LOOK)
    assert plan_words(STEPS[1:], LOOK) == "Nothing to move: the offsets are there already."
