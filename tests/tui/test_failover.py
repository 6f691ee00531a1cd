"""The failover screen without processes: what it shows and asks, on the recorded cluster."""

import errno
import os
from typing import Any

import pytest
from driving import on_recorded, on_top, press, until
from fake_control import FakeControl
from pictures import recorded_source

from yak.errors import YakError
from yak.tui.rows.failover import nothing_yet_lines
from yak.tui.screens.failover import FailoverScreen
from yak.tui.widgets.dialogs import ConfirmDialog, FormDialog
from yak.tui.widgets.frame import Lines
from yak.tui.widgets.grid import Grid


def on_failover(control: FakeControl | None = None, size: tuple[int, int] = (100, 30), **settings: Any) -> Any:
    """The app on this screen, and its pilot."""
    return on_recorded(size=size, source=recorded_source(local=control), start="failover", **settings)


def lines_of(app: Any, name: str) -> str:
    lines = app.screen_below().query_one(name, Lines)._lines
    return "\n".join(" ".join(cell.text for cell in line) for line in lines)


async def test_of_brokers_elsewhere_only_a_planned_failover_is_offered_and_it_says_why():
    async with on_failover() as (app, pilot):
        said = str(app.screen.query_one("#failover-brokers").border_subtitle)
        assert said == "only F: no yak up of this machine started these brokers"
        bound = {active.binding.id for active in app.screen.active_bindings.values() if active.enabled}
        assert "failover.move" in bound
        assert not bound & {"failover.kill", "failover.pause", "failover.heal", "failover.restart", "failover.add"}
        for key in "KPUTAR":
            await pilot.press(key)
        await pilot.pause()
        assert isinstance(app.screen, FailoverScreen)
        assert "No demo clients run here" in lines_of(app, "#delivery-lines")


async def test_lines_are_fitted_to_a_new_width_as_soon_as_the_window_has_it():
    async with on_failover(FakeControl(), size=(200, 60)) as (app, pilot):
        wide = lines_of(app, "#failover-lines")
        await pilot.press("space")  # drawing is paused: no tick draws again
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        width = app.screen.query_one("#failover-lines", Lines).size.width
        narrow = lines_of(app, "#failover-lines")
        assert max(map(len, narrow.splitlines())) < width < max(map(len, wide.splitlines()))


async def test_full_disk_of_this_machine_is_the_error_of_a_restart_and_the_app_goes_on():
    control = FakeControl()
    control.refuse = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/cluster.json")  # type: ignore[assignment]

    async with on_failover(control) as (app, pilot):
        await press(pilot, "T", "y")
        assert app.notices[-1][1].why == "No space left on device"
        assert app.picture.activity.lines[-1].message.endswith("failed: the change failed")


async def test_planned_failover_that_is_refused_is_not_drawn_as_the_last_one():
    source = recorded_source()
    source.answers["POST /api/failover"] = YakError("not-authorized", "refused")

    async with on_recorded(source=source, size=(100, 30), start="failover") as (app, pilot):
        before = lines_of(app, "#failover-lines")
        await press(pilot, "F")
        assert isinstance(app.screen, FormDialog)
        await press(pilot, "ctrl+s")
        assert app.notices[-1][1].message == "refused"
        app.paint_now()
        assert lines_of(app, "#failover-lines") == before


async def test_kill_confirmation_names_broker_and_command():
    control = FakeControl()

    async with on_failover(control) as (app, pilot):
        await press(pilot, "K")
        assert isinstance(app.screen, ConfirmDialog)
        assert app.screen._title == "Kill broker 1"
        assert app.screen._command == "yak node kill 1"
        assert "process 101" in app.screen._text
        await press(pilot, "n")
        assert control.done == []
        await press(pilot, "K", "y")
        assert control.done == ["kill 1"]
        assert app.picture.activity.lines[-1].message == "yak node kill 1"
        assert "kill -9 of broker 1" in lines_of(app, "#failover-lines")


@pytest.mark.parametrize(
    ("key", "done", "title"), [("P", "pause 2", "Pause broker 2"), ("T", "restart 2", "Restart broker 2")]
)
async def test_action_keys_apply_to_the_broker_under_the_cursor(key, done, title):
    control = FakeControl()

    async with on_failover(control) as (app, pilot):
        await pilot.press("j")
        await press(pilot, key)
        assert app.screen._title == title
        await press(pilot, "y")
        assert control.done == [done]


async def test_healing_undoes_what_was_broken_and_repeating_breaks_it_again():
    control = FakeControl()

    async with on_failover(control) as (app, pilot):
        await press(pilot, "U")
        assert isinstance(app.screen, FailoverScreen), "there is nothing to heal"
        await press(pilot, "P", "y")
        await until(pilot, lambda: app.screen.processes.brokers[1].state == "paused", "the paused broker")
        await press(pilot, "U")
        await on_top(pilot, ConfirmDialog)
        await press(pilot, "y")
        assert control.done == ["pause 1", "resume 1"]
        await press(pilot, "R")
        assert app.screen._title == "Pause broker 1"
        await press(pilot, "y")
        assert control.done[-1] == "pause 1"


async def test_metadata_store_can_be_killed_and_restarted():
    control = FakeControl()

    async with on_failover(control) as (app, pilot):
        await pilot.press("G")
        await press(pilot, "K", "y")
        assert control.done == ["stop redis"]
        rows = app.screen.query_one("#brokers", Grid)
        await until(pilot, lambda: rows.cursor_row.cells[5].text.endswith("dead"), "the killed store")
        await press(pilot, "U", "y")
        assert control.done == ["stop redis", "start redis"]


async def test_failover_screen_adds_a_broker():
    control = FakeControl()

    async with on_failover(control) as (_app, pilot):
        await press(pilot, "A", "y")
        assert control.done == ["add 4"]


async def test_refused_action_is_reported_and_is_no_drill():
    control = FakeControl()
    control.refuse = YakError("node-paused", "node 1 is paused already", why="it was stopped before")

    async with on_failover(control) as (app, pilot):
        await press(pilot, "P", "y")
        await until(pilot, lambda: app.notices and app.notices[-1][1] is control.refuse, "the error is shown")
        await until(pilot, lambda: "SIGSTOP" not in lines_of(app, "#failover-lines"), "the drill is not shown")
        assert app.screen_below().drills.last is None


async def test_planned_failover_updates_its_command_and_sends_the_request():
    async with on_failover() as (app, pilot):
        grid = app.screen.query_one("#brokers", Grid)
        leaders = {each.leader for each in app.picture.partitions.values()}
        grid.move_to(str(min(node for node in leaders if node is not None)))
        node = int(grid.cursor_key)
        mine = next(each for each in app.picture.partitions.values() if each.leader == node)
        app.source.answers["POST /api/failover"] = {"moved": [{}], "stayed": [], "failed": [], "took_ms": 45.4}
        await press(pilot, "F")
        form = app.screen
        assert isinstance(form, FormDialog)
        form.query_one("#field-what").value = "no-such-topic"
        await pilot.pause()
        assert "leads nothing of no-such-topic" in str(form.query_one("#form-error").render())
        assert form.query_one("#yes").disabled
        form.query_one("#field-what").value = f"{mine.topic}:{mine.partition}"
        await pilot.pause()
        command = f"yak failover {mine.topic}:{mine.partition} --from {node}"
        assert str(form.query_one("#form-command").render()) == f"$ {command}"
        await press(pilot, "ctrl+s")
        body = {"topic": mine.topic, "partition": mine.partition, "from": node}
        assert app.source.requests[-1] == ("POST", "/api/failover", body)
        assert app.picture.activity.lines[-1].message == f"{command}  moved 1 in 45 ms"
        assert app.screen_below().drills.last.led == {mine.name}
        await press(pilot, "R", "y")
        assert app.source.requests[-1] == ("POST", "/api/failover", body)
        assert len(app.screen_below().drills._done) == 2


async def test_failed_moves_are_reported_with_the_reason():
    async with on_failover() as (app, pilot):
        grid = app.screen.query_one("#brokers", Grid)
        leader = min(each.leader for each in app.picture.partitions.values() if each.leader is not None)
        grid.move_to(str(leader))
        stayed = {"topic": "orders", "partition": 0, "reason": "nobody else is in sync"}
        app.source.answers["POST /api/failover"] = {"moved": [], "stayed": [stayed], "failed": [], "took_ms": 1.0}
        await press(pilot, "F", "ctrl+s")
        assert app.notices[-1][1] == "1 stayed: orders-0: nobody else is in sync"


async def test_with_only_looking_allowed_nothing_can_be_broken():
    control = FakeControl()

    async with on_failover(control, is_readonly=True) as (app, pilot):
        assert "read-only" in str(app.screen.query_one("#failover-brokers").border_subtitle)
        for key in "FKPUTARX":
            await pilot.press(key)
        await pilot.pause()
        assert isinstance(app.screen, FailoverScreen)
        assert control.done == []


async def test_the_history_needs_a_wide_window():
    async with on_failover(size=(80, 24)) as (app, _pilot):
        assert not app.screen.query_one("#failover-history").display

    async with on_failover(size=(140, 40)) as (app, _pilot):
        assert app.screen.query_one("#failover-history").display


async def test_no_sentence_is_cut_beside_the_history_of_failovers():
    async with on_failover(size=(120, 40)) as (app, _pilot):
        screen = app.screen_below()
        lines = screen.query_one("#failover-lines", Lines)
        lines.show(nothing_yet_lines(is_local=True))
        drawn = " ".join(lines.render_line(y).text.strip() for y in range(lines.size.height))
        said = " ".join(cell.text for line in nothing_yet_lines(is_local=True) for cell in line)
        assert " ".join(drawn.split()) == said
