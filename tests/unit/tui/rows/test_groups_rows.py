"""Rows of groups, and of a reset."""

import shlex

import pytest

from yak.client.groups.reset import Step, Target
from yak.errors import UsageError, YakError
from yak.ids import TopicPartition
from yak.tui.formatter import Formatter
from yak.tui.rows.groups import (
    COLUMNS,
    MEMBER_COLUMNS,
    PARTITION_COLUMNS,
    STEP_COLUMNS,
    WAYS,
    group_rows,
    group_state_cell,
    list_title,
    member_rows,
    members_of,
    partition_rows,
    plan_summary,
    reset_command,
    reset_target,
    silent_brokers,
    step_rows,
    summary,
    topics_of,
)
from yak.tui.state.groups import Group, Groups, Unread
from yak.view.groups import members_text

FMT, ASCII = Formatter(), Formatter(is_ascii=True)
MEMBERS = [
    {
        "member_id": "w-2-uuid", "client_id": "w-2", "host": "/10.0.0.2", "instance_id": "static", "epoch": 3,
        "topics": ["orders"], "assignment": [{"topic": "orders", "partition": 2}],
        "target": [{"topic": "orders", "partition": 1}, {"topic": "orders", "partition": 2}],
    },
    {
        "member_id": "w-1-uuid", "client_id": "w-1", "host": "/10.0.0.1", "instance_id": None, "epoch": None,
        "topics": ["orders"], "assignment": [{"topic": "orders", "partition": n} for n in (0, 1)], "target": None,
    },
    {
        "member_id": "w-3-uuid", "client_id": "w-3", "host": "/10.0.0.3", "instance_id": None, "epoch": None,
        "topics": None, "assignment": None, "target": None,
    },
]  # fmt: skip


def partition(number, committed, start, end, member=None):
    lag = None if committed is None or end is None else max(0, end - committed)
    return {
        "topic": "orders", "partition": number, "committed": committed, "metadata": "", "log_start_offset": start,
        "high_watermark": end, "lag": lag, "member_id": member,
    }  # fmt: skip


SAID = {
    "group": "audit", "coordinator": 2, "type": "classic", "state": "Stable", "protocol_type": "consumer",
    "assignor": "range", "epoch": None, "members": MEMBERS, "lag": 1_204,
    "partitions": [
        partition(0, 1_000, 0, 2_204, "w-1-uuid"), partition(1, 7, 0, 7, "w-1-uuid"), partition(2, None, 0, 5),
        partition(3, 9, 20, 30), partition(4, 9, None, None), partition(5, 50, 0, 30),
    ],
}  # fmt: skip


def texts(row):
    return [cell.text for cell in row.cells]


def test_a_group_shows_state_lag_and_where_it_goes():
    groups = Groups()
    groups.listed(
        {
            "groups": [
                {"group": name, "type": "classic", "state": state, "coordinator": 2}
                for name, state in (
                    ("audit", "Stable"),
                    ("new", "PreparingRebalance"),
                    ("read", "Empty"),
                    ("none", "Dead"),
                )
            ],
            "silent": [{"node_id": 3, "reason": "no"}],
        }
    )
    groups.update("audit", SAID, 0)
    groups.update("read", {**SAID, "state": "Empty", "members": [], "lag": 0}, 0)
    groups.update("none", {**SAID, "state": "Dead", "members": [], "lag": None}, 0)
    rows = {row.key: texts(row) for row in group_rows(groups, FMT, 0)}
    assert rows["audit"] == ["audit", "● Stable", "classic", "3", "2", FMT.number(1204), "█", "–"]
    assert rows["read"][-3:] == ["0", "▁", "caught up"]
    assert rows["none"][-3:] == ["–", "", "–"]
    assert rows["new"] == ["new", "▲ joining", "classic", "", "2", "", "", ""]
    assert list_title(groups, FMT) == f"Groups: 4, lag {FMT.number(1204)}"
    assert silent_brokers(groups) == "broker 3 did not answer: its groups are missing"
    assert all(len(row) == len(COLUMNS) for row in rows.values())


def test_several_silent_brokers_are_named_in_the_plural():
    groups = Groups()
    groups.listed({"groups": [], "silent": [{"node_id": node, "reason": "timed out"} for node in (2, 3)]})
    assert silent_brokers(groups) == "brokers 2, 3 did not answer: their groups are missing"


def test_group_row_marks_a_failed_request():
    groups = Groups()
    groups.listed({"groups": [{"group": "a", "type": "classic", "state": "Empty", "coordinator": 1}], "silent": []})
    groups.failed("a", "no coordinator")
    assert texts(group_rows(groups, FMT, 0)[0])[3:6] == ["?", "1", "?"]
    assert silent_brokers(groups) == ""
    assert list_title(Groups(), FMT) == "Groups"


def test_a_lag_that_grows_says_so_and_one_that_falls_says_when():
    groups = Groups()
    groups.listed({"groups": [{"group": n, "type": "c", "state": "S", "coordinator": 1} for n in "ab"], "silent": []})
    for second in range(0, 12, 2):
        groups.update("a", {**SAID, "lag": 100 + second * 10}, second * 1_000)
        groups.update("b", {**SAID, "lag": 1_000 - second * 10}, second * 1_000)
    assert [texts(row)[-1] for row in group_rows(groups, FMT, 10_000)] == ["growing", "1 min 30 s"]


@pytest.mark.parametrize(
    "state", ["Stable", "Empty", "Dead", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "New"]
)
def test_every_group_state_has_a_sign_and_a_text_in_ascii_too(state):
    for fmt in (FMT, ASCII):
        sign, _, word = group_state_cell(state, fmt).text.partition(" ")
        assert sign
        assert word
    assert group_state_cell(state, ASCII).text.isascii()
    assert group_state_cell(state, FMT, is_short=False).text.endswith(state)


def test_member_rows_have_assignment_and_target():
    rows = [texts(row) for row in member_rows(SAID, FMT)]
    assert rows[0] == ["w-1", "10.0.0.1", "2", "orders:0-1", "–", "w-1-uuid"]
    assert rows[1] == ["w-2", "10.0.0.2", "1", "orders:2 → orders:1-2", "static", "w-2-uuid"]
    assert rows[2][2:4] == ["–", "unknown while the group rebalances"]
    assert all(len(row) == len(MEMBER_COLUMNS) for row in rows)
    assert members_text(members_of(SAID)) == "w-2 at 10.0.0.2, w-1 at 10.0.0.1, w-3 at 10.0.0.3"
    assert members_text(members_of({"members": MEMBERS + MEMBERS[:1]})).endswith(" and 1 more")


def test_partition_rows_have_lag_age_and_problem():
    unread = {TopicPartition("orders", 0): Unread(1_000, 5_000, 9_000)}
    rows = {row.key: row for row in partition_rows(SAID, unread, FMT, 9_800)}
    assert texts(rows["orders:0"])[1:] == [
        "0", FMT.number(1000), FMT.number(2204), FMT.number(1204), "4.8 s", "w-1", "0",
    ]  # fmt: skip
    assert texts(rows["orders:1"])[4:7] == ["0", "0 s", "w-1"]
    assert texts(rows["orders:2"])[2:7] == ["–", "5", "–", "–", "– none"]
    assert "11 of them are deleted" in texts(rows["orders:3"])[6]
    assert "the topic is gone" in texts(rows["orders:4"])[6]
    assert "the log ends at 30" in texts(rows["orders:5"])[6]
    assert all(len(row.cells) == len(PARTITION_COLUMNS) for row in rows.values())


def test_the_head_says_what_it_is_and_how_far():
    group = Group("audit")
    assert summary(group, FMT, 0)[0][0].text == "waiting for its coordinator ..."
    group.why = "no coordinator"
    assert summary(group, FMT, 0)[0][0].text == "no coordinator"
    group.update(SAID, 0)
    first, second = (" ".join(cell.text for cell in line) for line in summary(group, FMT, 0))
    assert first == "● Stable · classic, consumer, assignor range · coordinator 2"
    assert second == f"lag {FMT.number(1204)} █ in 6 partitions · ETA –"


LOCAL = Formatter("local")
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
    assert reset_command("audit", values, FMT) == line
    assert reset_command("audit", values, FMT, is_done=True) == f"{line} --execute"


def test_names_are_quoted_and_local_times_are_read_as_local():
    assert shlex.split(reset_command("my group; rm", form("latest"), FMT))[3] == "my group; rm"
    assert reset_command("g", form("time", "2026-11-20T12:00"), LOCAL).endswith(" --local")


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
        reset_command("g", values, FMT)


def test_the_form_becomes_a_target():
    assert reset_target(form("earliest"), 0, FMT, {}) == Target("earliest")
    assert reset_target(form("latest"), 0, FMT, {}) == Target("latest")
    assert reset_target(form("current"), 0, FMT, {}) == Target("current")
    assert reset_target(form("offset", "7"), 0, FMT, {}) == Target("offset", 7)
    assert reset_target(form("shift by", "-7"), 0, FMT, {}) == Target("shift", -7)
    assert reset_target(form("time", "-1m"), 100_000, FMT, {}) == Target("timestamp", 40_000)
    assert reset_target(form("time", "1970-01-01T00:01"), 0, FMT, {}) == Target("timestamp", 60_000)
    assert reset_target(form("file", "f"), 0, FMT, {O0: 4}) == Target("file", offsets={O0: 4})
    assert all(reset_command("g", form(way, "1"), FMT) for way in WAYS)
    assert topics_of(form("file", topics=" a:1  b ")) == ["a:1", "b"]


def test_the_preview_shows_old_and_new_and_why_something_stays():
    rows = [[cell.text for cell in row.cells] for row in step_rows(STEPS, None, FMT)]
    assert rows[0] == [
        "orders", "0", "400", "→", "0", "-400", "→ will be set: -100 is before the log, which starts at 0",
    ]  # fmt: skip
    assert rows[1][2:] == ["5", "→", "5", "0", "– unchanged"]
    assert rows[2][2:] == ["–", "→", "–", "–", "▲ left alone: no"]
    assert all(len(row) == len(STEP_COLUMNS) for row in rows)


def test_afterwards_it_shows_what_was_done():
    failed = YakError("x", "not moved", why="it has members now")
    rows = [row.cells[-1] for row in step_rows([Step(O0, 4, 0), Step(O1, 4, 0)], {O0: None, O1: failed}, FMT)]
    assert [(cell.text, cell.tone) for cell in rows] == [
        ("✓ set", "good"), ("✗ failed: it has members now", "bad"),
    ]  # fmt: skip


def test_plan_summary_reports_its_effect_in_records():
    assert plan_summary(STEPS, FMT) == "1 partition will be moved: 400 records will be read again."
    assert "30 records will be skipped" in plan_summary([Step(O0, 0, 30), Step(O1, 5, 1)], FMT)
    assert "1 record will be read again" in plan_summary([Step(O0, 6, 5)], FMT)
    assert "1 partition will get a first offset" in plan_summary([Step(O0, None, 30)], FMT)
    assert plan_summary(STEPS[1:], FMT) == "Nothing to move: the offsets are there already."
