"""The Spark screen on recorded jobs, and on a job that is a process of this test."""

import asyncio
import subprocess
import sys
from dataclasses import replace

import pytest
from pictures import CALLS, recorded_app, recorded_source
from spark_jobs import recorded_jobs

from yak.local import spark_runs
from yak.local.processes import identify
from yak.tui.screens import spark as screen
from yak.tui.state.spark_jobs import find_spark_jobs, submit_command, submit_words
from yak.tui.widgets.dialogs import ConfirmDialog, FormDialog, TextDialog
from yak.tui.widgets.grid import Grid
from yak.tui.widgets.lines import Lines

FORM = {
    "job": "counts", "topic": "orders", "sink": "topic:counts", "checkpoint_dir": "./ck", "trigger": "", "master": "",
    "more": "--window 1m",
}  # fmt: skip


def run(scenario):
    asyncio.run(scenario)


def words_of(lines: Lines) -> str:
    return "\n".join(" ".join(cell.text for cell in line) for line in lines._lines)


async def until(pilot, check):
    for _ in range(100):
        if check():
            return
        await pilot.pause(0.05)
    raise AssertionError("it did not come about")


def test_each_job_is_a_line_and_the_one_under_the_cursor_is_told_in_full():
    async def scenario():
        app = recorded_app(start="spark")
        async with app.run_test(size=(120, 40)) as pilot:
            grid = app.screen.query_one("#jobs", Grid)
            await until(pilot, lambda: grid.row_count == 6)
            lines = app.screen.query_one("#spark-lines", Lines)
            assert "yak spark run counts --topic orders --window 1m" in words_of(lines)
            assert "3 too late" in words_of(lines)
            await pilot.press("j", "j", "j")
            await pilot.pause()
            assert "is the checkpoint of another query" in words_of(lines)
            assert "--checkpoint-dir ./ck/stats-2" in words_of(lines)
            await pilot.press("e")
            await pilot.pause()
            assert grid.row_count == 3

    run(scenario())


def test_enter_shows_all_of_it_with_the_end_of_its_log(tmp_path):
    job = recorded_jobs(1_790_000_000_000)[0]
    (tmp_path / "spark.log").write_text("WARN something of Java\n")
    source = recorded_source()
    source.calls = {**CALLS, "find_spark_jobs": [replace(job, run=replace(job.run, folder=tmp_path))]}

    async def scenario():
        app = recorded_app(source=source, start="spark")
        async with app.run_test(size=(100, 30)) as pilot:
            await until(pilot, lambda: app.screen.query_one("#jobs", Grid).row_count == 1)
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, TextDialog))
            assert "WARN something of Java" in str(app.screen._content)

    run(scenario())


def test_the_form_makes_the_command_and_starts_it(monkeypatch, tmp_path):
    said = tmp_path / "said"
    script = f"import sys; open({str(said)!r}, 'w').write(' '.join(sys.argv[1:]))"
    monkeypatch.setattr(screen, "yak_argv", lambda *words: [sys.executable, "-c", script, *words])

    async def scenario():
        app = recorded_app(start="spark")
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.press("a")
            await until(pilot, lambda: isinstance(app.screen, FormDialog))
            app.screen.dismiss(FORM)
            await until(pilot, said.exists)
            await until(pilot, lambda: said.read_text() != "")

    run(scenario())
    assert said.read_text() == (
        "spark run -b 127.0.0.1:9092 counts --topic orders --sink topic:counts --checkpoint-dir ./ck --window 1m -o json"
    )


def test_an_error_of_the_start_is_told_in_its_parts(monkeypatch):
    error = '{"error": {"code": "unknown-topic", "message": "topic \\"x\\" does not exist", "why": "w", "try": ["t"]}}'
    script = f"import sys; sys.stderr.write({error!r}); sys.exit(2)"
    monkeypatch.setattr(screen, "yak_argv", lambda *words: [sys.executable, "-c", script, *words])

    async def scenario():
        app = recorded_app(start="spark")
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause(0.2)
            app.screen._start(["spark", "run", "counts"], "yak spark run counts")
            await until(pilot, lambda: any(getattr(each[1], "code", "") == "unknown-topic" for each in app.notices))

    run(scenario())


def test_cancel_asks_first_and_ends_the_process(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        made = spark_runs.new_run("counts", ["--topic", "orders"], master="local[2]")
        spark_runs.save(replace(made, state="running", process=identify(child.pid)))
        source = recorded_source()
        source.calls = {**CALLS, "find_spark_jobs": find_spark_jobs}

        async def scenario():
            app = recorded_app(source=source, start="spark")
            async with app.run_test(size=(120, 40)) as pilot:
                await until(pilot, lambda: app.screen.query_one("#jobs", Grid).row_count == 1)
                await pilot.press("X")
                await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
                assert child.poll() is None
                await pilot.press("y")
                await until(pilot, lambda: child.poll() is not None)

        # `find_spark_jobs` takes where brokers are, which the recorded source does not give.
        run(scenario())
        assert child.returncode == -15
    finally:
        child.kill()
        child.wait()


def test_a_form_that_cannot_be_is_refused():
    with pytest.raises(Exception, match="counts reads a topic"):
        submit_words({**FORM, "topic": ""}, "h:1")
    with pytest.raises(Exception, match="cannot be read"):
        submit_words({**FORM, "more": "'"}, "h:1")
    assert submit_command(FORM, "h:1").startswith("yak spark run -b h:1 counts --topic orders")


def test_every_job_can_be_chosen():
    from yak.spark.jobs import MODULES
    from yak.tui.state.spark_jobs import JOBS

    assert set(JOBS) == set(MODULES)
