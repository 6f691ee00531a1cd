"""Replication on the recorded cluster: what it shows, and what is moved and broken from it."""

import pytest
from driving import answered, on_recorded, on_top, press, shown, until, words
from fake_control import FakeControl
from pictures import recorded_source
from textual.widgets import Select

from yak.tui.screens.replication import ReplicationScreen
from yak.tui.screens.topic import TopicScreen
from yak.tui.screens.topics import TopicsScreen
from yak.tui.widgets.dialogs import ConfirmDialog, FormDialog
from yak.tui.widgets.frame import Lines
from yak.tui.widgets.grid import Grid


async def test_replication_shows_what_is_not_well_first_and_how_the_last_failover_went():
    async with on_recorded(start="replication") as (app, pilot):
        rows = shown(app.screen.query_one("#replication", Grid))
        assert rows[0]["PARTITION"] == "audit-log-0"
        assert rows[0]["STATE"] == "✗ under min ISR"
        assert {row["STATE"] for row in rows[1:]} == {"▲ at min ISR"}
        assert words(app.screen.query_one("#failovers", Lines)).count("broker 3 lost") == 1
        assert "detected" in words(app.screen.query_one("#failovers", Lines))
        await press(pilot, "o")
        problems = shown(app.screen.query_one("#replication", Grid))
        assert {row["STATE"][0] for row in problems} == {"✗", "▲"}
        await press(pilot, "o", "I")
        assert len(shown(app.screen.query_one("#replication", Grid))) == len(app.picture.partitions)


async def test_steps_of_a_slow_failover_wrap_to_the_next_line_in_a_narrow_window():
    async with on_recorded(start="replication", size=(80, 24)) as (app, pilot):
        failover = app.picture.elections.failovers[-1]
        failover.elected_ms += 70_000
        failover.first_write_ms += 100_000
        app.screen.paint(app.now_ms())
        await pilot.pause()
        lines = app.screen.query_one("#failovers", Lines)
        drawn = [lines.render_line(y).text for y in range(lines.size.height)]
        assert any("= 1 min 41 s" in line for line in drawn), drawn


async def test_a_leadership_is_moved_to_a_replica_that_is_chosen():
    source = recorded_source()
    source.answers["POST /api/failover"] = {"moved": [{}], "failed": [], "stayed": [], "took_ms": 41.0}

    async with on_recorded(source=source, start="replication") as (app, pilot):
        app.screen.query_one("#replication", Grid).move_to("orders-0")
        await press(pilot, "F")
        form = app.screen
        assert isinstance(form, FormDialog)
        assert form.query_one("#field-to", Select).value == "2"  # 3 is out of sync
        assert str(form.query_one("#form-command").render()) == "$ yak failover orders:0 --to 2"
        await press(pilot, "ctrl+s")
        assert ("POST", "/api/failover", {"topic": "orders", "partition": 0, "to": 2}) in source.requests
        assert app.picture.activity.lines[-1].message == "yak failover orders:0 --to 2  moved in 41 ms"


@pytest.mark.parametrize(("key", "action"), [("K", "kill"), ("P", "pause"), ("T", "restart")])
async def test_the_leader_is_broken_after_a_question_that_names_it(key, action):
    source = recorded_source()
    source.local = FakeControl()

    async with on_recorded(source=source, start="replication") as (app, pilot):
        app.screen.query_one("#replication", Grid).move_to("orders-1")
        await press(pilot, key)
        dialog = app.screen
        assert isinstance(dialog, ConfirmDialog)
        assert "broker 2" in dialog._title
        assert dialog._command == f"yak node {action} 2"
        await press(pilot, "n", key)
        assert source.local.done == []
        await press(pilot, "y")
        await until(pilot, lambda: app.picture.activity.lines[-1].message == f"yak node {action} 2", "the command")
        assert source.local.done == [f"{action} 2"]


async def test_healing_wakes_and_starts_what_does_not_run():
    source = recorded_source()
    source.local = FakeControl()
    source.local.states = {1: "paused", 2: "running", 3: "dead"}

    async with on_recorded(source=source, start="replication") as (_app, pilot):
        await press(pilot, "U")
        await on_top(pilot, ConfirmDialog)
        await press(pilot, "y")
        await until(pilot, lambda: source.local.done == ["resume 1", "restart 3"], "both")


@pytest.mark.parametrize("settings", [{}, {"is_readonly": True}], ids=["not ours", "read-only"])
async def test_fault_keys_are_not_bound_without_a_local_cluster_or_when_read_only(settings):
    source = recorded_source()
    source.local = FakeControl() if settings else None

    async with on_recorded(source=source, start="replication", **settings) as (app, pilot):
        for key in ("K", "P", "U", "T"):
            await press(pilot, key)
            assert isinstance(app.screen, ReplicationScreen)


async def test_enter_opens_the_topic_with_the_cursor_on_the_partition():
    async with on_recorded(start="replication") as (app, pilot):
        app.screen.query_one("#replication", Grid).move_to("orders-2")
        await press(pilot, "enter")
        await answered(pilot)
        assert isinstance(app.screen, TopicScreen)
        assert app.screen.query_one("#partitions", Grid).cursor_key == "2"
        await press(pilot, "escape")
        assert isinstance(app.screen, TopicsScreen)


async def test_signs_are_letters_where_they_must_be():
    async with on_recorded(size=(140, 40), start="replication", is_ascii=True) as (app, pilot):
        assert all(text.isascii() for row in shown(app.screen.query_one("#replication", Grid)) for text in row.values())
        app.go("topics", "orders")
        await answered(pilot)
        for grid in ("#partitions", "#replicas-beside"):
            assert all(text.isascii() for row in shown(app.screen.query_one(grid, Grid)) for text in row.values())


async def test_a_leadership_that_stays_is_noted_with_its_reason():
    source = recorded_source()
    refused = {"topic": "orders", "partition": 0, "reason": "the partition goes on changing"}
    source.answers["POST /api/failover"] = {"moved": [], "failed": [refused], "stayed": [], "took_ms": 41.0}

    async with on_recorded(source=source, start="replication") as (app, pilot):
        app.screen.query_one("#replication", Grid).move_to("orders-0")
        await press(pilot, "F", "ctrl+s")
        line = app.picture.activity.lines[-1].message
        assert line == "yak failover orders:0 --to 2  stayed: the partition goes on changing"
        assert app.notices[-1][1].startswith("orders-0 stayed")
