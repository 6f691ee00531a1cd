"""The demo's cluster and clients: they begin, they count, they survive a kill, and nothing of them is left, however it ends."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driving import until
from support.waiting import wait_until

from yak.local.cluster import LocalCluster
from yak.local.processes import end_processes_of, processes_of
from yak.tui.app import YakApp
from yak.tui.demo.run import DemoRun
from yak.tui.demo.source import DemoSource
from yak.tui.settings import UiSettings


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[str]:
    """Where the demo is; whatever a test that failed left there is ended."""
    path = os.path.realpath(tmp_path / "demo")
    os.mkdir(path)
    yield path
    end_processes_of(path)


@pytest.fixture
def demo(folder: str) -> Iterator[DemoRun]:
    run = DemoRun(data_dir=folder)
    yield run
    run.keep = False
    run.close()


def counted(run: DemoRun, records: int) -> Callable[[], bool]:
    return lambda: run.state.counts.acknowledged >= records


def nothing_is_left(folder: str) -> bool:
    return not processes_of(folder) and not os.path.exists(folder)


def test_demo_starts_counts_survives_a_kill_and_leaves_no_files_or_processes(demo: DemoRun, folder: str):
    steps: list[str] = []
    demo.on_change = lambda: steps.append(demo.state.step)
    demo.start()
    wait_until(counted(demo, 500), "the first records")
    assert "starting broker 1 of 3" in steps
    assert steps.index("starting broker 1 of 3") < steps.index("running")
    local = LocalCluster(folder)
    local.kill(1)
    at_the_kill = demo.state.counts.acknowledged
    wait_until(counted(demo, at_the_kill + 1_000), "records after the kill")
    local.restart(1)
    demo.close()
    counts = demo.state.counts
    assert demo.state.phase == "ended"
    assert (counts.wrong, counts.failed, counts.strange) == (0, 0, 0)
    assert counts.read == counts.acknowledged > at_the_kill
    assert nothing_is_left(folder)


def test_an_end_in_the_middle_of_the_start_leaves_nothing(demo: DemoRun, folder: str):
    is_starting = threading.Event()
    demo.on_change = lambda: demo.state.step.startswith("starting broker") and is_starting.set()
    demo.start()
    assert is_starting.wait(60), "brokers on their way"
    demo.close()
    assert demo.state.error is None
    assert nothing_is_left(folder)


def test_killed_screen_ends_its_demo_too(folder: str):
    """`test_tmux.py` ends the whole `yak ui` by other signals."""
    program = (
        "import sys, time\n"
        "from yak.tui.demo.run import DemoRun; run = DemoRun(data_dir=sys.argv[1]); run.start()\n"
        "while run.state.counts.acknowledged < 10: time.sleep(0.05)\n"
        "print('up', flush=True); time.sleep(60)"
    )
    screen = subprocess.Popen([sys.executable, "-c", program, folder], stdout=subprocess.PIPE)
    assert screen.stdout is not None
    assert screen.stdout.readline() == b"up\n"
    assert len(processes_of(folder)) >= 4
    screen.kill()
    screen.wait()
    screen.stdout.close()
    wait_until(lambda: nothing_is_left(folder), "everything to be gone")


def test_killed_supervisor_is_reported_by_the_screen_which_cleans_up(demo: DemoRun, folder: str):
    demo.start()
    wait_until(counted(demo, 10), "the first records")
    assert demo._child is not None
    os.kill(demo._child.pid, signal.SIGKILL)
    wait_until(lambda: demo.state.phase == "failed", "the end to be noticed")
    assert demo.state.error is not None
    assert demo.state.error.code == "demo-ended"
    assert "-9" in demo.state.error.why
    demo.close()
    assert nothing_is_left(folder)


async def test_failed_start_is_reported_as_by_yak_up(demo: DemoRun, folder: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("YAK_REDIS_SERVER", "/nowhere/redis-server")
    demo.start()
    app = YakApp(DemoSource(demo), UiSettings())
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: demo.state.phase == "failed", "the failure")
        banner = app.screen.query_one("#banner")
        await until(pilot, lambda: "/nowhere/redis-server cannot be run" in str(banner.render()), "the reason")
        assert banner.display
    assert demo.state.error is not None
    assert demo.state.error.code == "no-redis-server"
    demo.close()
    assert nothing_is_left(folder)


def test_demo_cluster_with_keep_can_be_stopped_by_yak_down(demo: DemoRun, folder: str):
    demo.keep = True
    demo.start()
    wait_until(counted(demo, 10), "the first records")
    demo.close()
    local = LocalCluster(folder)
    assert {each.state for each in local.status().brokers} == {"running"}
    assert local.status().redis_running
    assert demo.state.counts.wrong == 0
    local.down(purge=True)
    assert processes_of(folder) == []


async def test_the_screen_is_there_before_the_cluster_and_shows_it_by_itself(demo: DemoRun):
    app = YakApp(DemoSource(demo), UiSettings(start="failover", fps=8.0))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "The demo begins" in str(app.screen.query_one("#banner").render()), "the banner")
        assert not app.picture.is_loaded
        demo.start()
        await until(pilot, lambda: app.picture.is_loaded and demo.state.counts.acknowledged, "the cluster")
        await until(pilot, lambda: not app.screen.query_one("#banner").display, "the banner to be gone")
        widget = app.screen.query_one("#delivery-lines")._lines
        assert widget[0][0].text.startswith("acked")
        assert await app.source.kafka(lambda servers: servers)
