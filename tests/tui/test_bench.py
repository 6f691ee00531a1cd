"""The bench screen with a stand-in for `yak bench`: what is asked, what is shown, what is kept."""

import asyncio
import json
import sys
from typing import Any

import pytest
from pictures import recorded_app

from yak.tui.bench import history
from yak.tui.bench import run as bench_run
from yak.tui.screens.bench import BenchScreen
from yak.tui.widgets.dialogs import ConfirmDialog, FormDialog, TextDialog
from yak.tui.widgets.grid import Grid
from yak.tui.widgets.lines import Lines

RESULT = {
    "records": 2_000, "records_per_s": 1_000.0, "mb_per_s": 0.1, "seconds": 2.0, "errors": 0,
    "latency_ms": {"p50": 1.5, "p99": 4.25, "max": 9.0},
}  # fmt: skip
LINES = [
    {"kind": "started", "messages": None, "duration_s": 2.0},
    *(
        {
            "kind": "progress",
            "elapsed_s": at / 2,
            "records": at * 500,
            "latency_ms": {"p50": 1.0, "p99": 4.0, "max": 5.0},
        }
        for at in range(1, 4)
    ),
]


@pytest.fixture(autouse=True)
def _own_state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def stand_in(monkeypatch, *, end: str) -> list[tuple[str, ...]]:
    """A child that tells LINES and then does `end`; gives the words that it was started with."""
    words: list[tuple[str, ...]] = []
    told = "\n".join(json.dumps(line) for line in LINES) + "\n"
    program = f"import sys, time; sys.stderr.write({told!r}); sys.stderr.flush(); {end}"

    def argv(*given: str) -> list[str]:
        words.append(given)
        return [sys.executable, "-c", program]

    monkeypatch.setattr(bench_run, "yak_argv", argv)
    return words


def drive(scenario: Any, size: tuple[int, int] = (80, 24), **settings: Any) -> None:
    app = recorded_app(start="bench", **settings)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause(0.3)
            await scenario(app, pilot)

    asyncio.run(run())


async def until(pilot: Any, what: Any) -> None:
    async with asyncio.timeout(10):
        while not what():
            await pilot.pause(0.05)
    await pilot.pause(0.4)


def live(app: Any) -> str:
    lines = app.screen_below().query_one("#bench-live", Lines)._lines
    return "\n".join(" ".join(cell.text for cell in line) for line in lines)


async def start(pilot: Any, *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await pilot.pause(0.2)


def test_a_run_from_the_choice_to_the_table(monkeypatch, tmp_path):
    words = stand_in(monkeypatch, end=f"print({json.dumps(RESULT)!r})")

    async def scenario(app, pilot):
        assert app.screen.query_one("#runs", Grid).row_count == 0
        await start(pilot, "j", "j", "enter")
        assert isinstance(app.screen, FormDialog)
        app.screen.query_one("#field-clients").value = "2"
        await pilot.pause()
        assert str(app.screen.query_one("#form-command").render()) == (
            "$ yak bench latency -b 127.0.0.1:9092 --clients 2"
        )
        await start(pilot, "ctrl+s")
        screen = app.screen_below()
        await until(pilot, lambda: screen.runs)
        assert words == [
            ("bench", "latency", "-b", "127.0.0.1:9092", "--clients", "2", "--progress-json", "-o", "json")
        ]
        assert "latency done" in live(app)
        assert "1.50 ms" in live(app)
        row = screen.query_one("#runs", Grid).cursor_row
        assert [cell.text for cell in row.cells[1:2]] == ["latency"]
        assert app.picture.activity.lines[-1].message == "yak bench latency -b 127.0.0.1:9092 --clients 2  done"
        assert history.load(tmp_path / "yak")[0].result["records"] == 2_000
        await start(pilot, "enter")
        assert isinstance(app.screen, TextDialog)
        assert "records_per_s" in str(app.screen._content)

    drive(scenario)


def test_it_is_watched_while_it_runs_and_can_be_stopped(monkeypatch):
    stand_in(monkeypatch, end="time.sleep(60)")

    async def scenario(app, pilot):
        await start(pilot, "enter", "ctrl+s")
        screen = app.screen_below()
        await until(pilot, lambda: screen.state is not None and len(screen.state.samples) == 3)
        assert "75 %" in live(app)
        assert "1 500 records" in live(app).replace("\N{NARROW NO-BREAK SPACE}", " ")
        assert screen.query_one("#bench-plots").display
        assert not screen.query_one("#bench-kinds").display
        bound = {active.binding.id for active in screen.active_bindings.values() if active.enabled}
        assert "bench.stop" in bound
        assert "bench.start" not in bound
        await start(pilot, "X")
        assert isinstance(app.screen, ConfirmDialog)
        await start(pilot, "y")
        await until(pilot, lambda: screen.state.phase == "stopped")
        assert screen.runs == []
        assert "produce stopped" in live(app)
        await start(pilot, "escape")
        assert screen.query_one("#bench-kinds").display

    drive(scenario)


def test_the_app_takes_a_running_benchmark_with_it(monkeypatch, tmp_path):
    mark = tmp_path / "ended"
    end = (
        "import signal, pathlib; "
        f"signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path({str(mark)!r}).touch(), sys.exit(143))); time.sleep(60)"
    )
    stand_in(monkeypatch, end=end)

    async def scenario(app, pilot):
        await start(pilot, "enter", "ctrl+s")
        screen = app.screen_below()
        await until(pilot, lambda: screen.state is not None and len(screen.state.samples) == 3)
        await pilot.press("Q")

    drive(scenario)
    assert mark.exists()


def test_what_goes_wrong_is_told_in_three_parts(monkeypatch):
    error = {
        "error": {
            "code": "bench-empty",
            "message": "there is no topic nope to read",
            "why": "",
            "try": ["yak bench produce"],
        }
    }
    stand_in(monkeypatch, end=f"sys.stderr.write({json.dumps(error)!r} + chr(10)); sys.exit(2)")

    async def scenario(app, pilot):
        await start(pilot, "j", "enter", "ctrl+s")
        await until(pilot, lambda: app.notices)
        assert app.notices[-1][1].code == "bench-empty"
        assert "there is no topic nope to read\ntry: yak bench produce" in live(app)
        assert app.screen_below().runs == []

    drive(scenario)


def test_a_run_is_repeated_with_its_choices_and_compared(monkeypatch):
    words = stand_in(monkeypatch, end=f"print({json.dumps(RESULT)!r})")

    async def scenario(app, pilot):
        screen = app.screen
        before = history.BenchRun(1_000, "e2e", {"clients": "3"}, "", {**RESULT, "latency_ms": {"p99": 8.5}}, "local")
        screen.runs = [before]
        screen.paint(app.now_ms())
        screen.query_one("#runs").focus()
        await start(pilot, "R")
        assert app.screen._command == "yak bench e2e -b 127.0.0.1:9092 --clients 3"
        await start(pilot, "y")
        await until(pilot, lambda: len(screen.runs) == 2)
        assert words[0][:3] == ("bench", "e2e", "-b")
        grid = screen.query_one("#runs", Grid)
        grid.move_to(0)
        assert grid.cursor_row.cells[8].text.endswith("0.50x")

    drive(scenario)


def test_read_only_measures_nothing(monkeypatch):
    words = stand_in(monkeypatch, end="pass")

    async def scenario(app, pilot):
        await start(pilot, "enter", "a", "R")
        assert isinstance(app.screen, BenchScreen)
        assert words == []

    drive(scenario, is_readonly=True)
