"""The guardian of a test run: it ends the run's processes and nobody else's, and only when the run did not do it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from yak.local.guardian import ALL_CLEAN, clean_up
from yak.local.processes import identify, processes_of

SLEEP = "import time; print('up', flush=True); time.sleep(60)"


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    children: list[subprocess.Popen[str]] = []
    yield children
    for child in children:
        child.kill()
        child.wait()


def sleeper(started: list[subprocess.Popen[str]], *arguments: str, cwd: Path | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SLEEP, *arguments]
    child = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, text=True, start_new_session=True)
    started.append(child)
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    return child


def guardian(parent: int, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "yak.local.guardian", str(parent), str(folder), "delete"]
    return subprocess.Popen(command, stdin=subprocess.PIPE)


def test_guardian_finds_brokers_by_data_directory_and_servers_by_working_directory(tmp_path, started):
    run, other = tmp_path / "run", tmp_path / "run-of-another"
    for folder in (run / "redis", other / "redis"):
        folder.mkdir(parents=True)
    broker = sleeper(started, "serve", "--data-dir", str(run / "cluster-1" / "node-1"))
    server = sleeper(started, cwd=run / "redis")
    sleeper(started, "serve", "--data-dir", str(other / "node-1"))
    sleeper(started, "less", str(run / "cluster-1" / "logs" / "node-1.log"))
    sleeper(started, cwd=other / "redis")
    assert sorted(processes_of(str(run))) == sorted([broker.pid, server.pid])


def test_cleaning_up_leaves_no_process_and_no_file(tmp_path, started):
    run = tmp_path / "run"
    (run / "redis").mkdir(parents=True)
    broker = sleeper(started, "serve", "--data-dir", str(run / "node-1"))
    server = sleeper(started, cwd=run / "redis")
    clean_up(str(run), deletes=True)
    assert [child.pid for child in (broker, server) if identify(child.pid) is not None] == []
    assert not run.exists()


@pytest.mark.parametrize("said", [ALL_CLEAN, b""], ids=["by itself", "not"])
def test_guardian_cleans_up_when_the_run_ended_without_cleaning_up(said, tmp_path, started):
    run = tmp_path / "run"
    run.mkdir()
    broker = sleeper(started, "serve", "--data-dir", str(run / "node-1"))
    watching = guardian(os.getpid(), run)
    assert watching.stdin is not None
    watching.stdin.write(said)
    watching.stdin.close()
    assert watching.wait(20) == 0
    assert run.exists() is bool(said)
    assert (broker.poll() is None) is bool(said)


def test_guardian_detects_that_its_parent_ended_although_the_pipe_is_held_open(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    somebody_else = 1
    watching = guardian(somebody_else, run)
    assert watching.wait(20) == 0
    assert watching.stdin is not None
    watching.stdin.close()
    assert not run.exists()


def test_guardian_waits_while_the_run_continues(tmp_path):
    watching = guardian(os.getpid(), tmp_path)
    time.sleep(0.3)
    assert watching.poll() is None
    watching.communicate(ALL_CLEAN, timeout=20)
    assert watching.returncode == 0
    assert tmp_path.exists()
