"""Whether brokers at some addresses are ours to kill."""

import os
from pathlib import Path

import pytest

from yak.local import state
from yak.local.processes import ProcessId, identify
from yak.local.state import BrokerState, ClusterState, RedisState
from yak.tui.source.local_control import LocalClusterControl, find_local


def remember(folder: Path, port: int, process: ProcessId | None) -> str:
    folder.mkdir()
    broker = BrokerState(1, "leader", "127.0.0.1", port, str(folder / "node-1"), process=process, is_ready=True)
    state.save(ClusterState(str(folder), RedisState("redis://x"), "id", brokers=[broker]))
    return str(folder)


@pytest.fixture
def alive() -> ProcessId:
    found = identify(os.getpid())
    assert found is not None
    return found


@pytest.mark.parametrize(
    "bootstrap", ["127.0.0.1:7001", "localhost:7001", "elsewhere:9092,127.0.0.1:7001", "[::1]:7001"]
)
def test_brokers_that_run_at_an_address_of_ours_are_ours(tmp_path, alive, bootstrap):
    other = remember(tmp_path / "other", 7002, alive)
    ours = remember(tmp_path / "ours", 7001, alive)
    found = find_local(bootstrap, (str(tmp_path / "none"), other, ours))
    assert found is not None
    assert found.data_dir == os.path.realpath(ours)


@pytest.mark.parametrize("bootstrap", ["127.0.0.1:7002", "example.org:7001", ""])
def test_others_are_not(tmp_path, alive, bootstrap):
    assert find_local(bootstrap, (remember(tmp_path / "ours", 7001, alive),)) is None


def test_a_cluster_that_ran_there_once_is_not_the_one_that_runs_now(tmp_path):
    assert find_local("127.0.0.1:7001", (remember(tmp_path / "ours", 7001, ProcessId(os.getpid(), "old")),)) is None


def test_unreadable_state_file_is_no_local_cluster(tmp_path):
    (tmp_path / state.STATE_FILE).write_text("{}")
    assert find_local("127.0.0.1:7001", (str(tmp_path),)) is None


def test_the_command_names_the_directory_unless_it_is_the_usual_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert LocalClusterControl(str(tmp_path / "yak-data")).command("node kill 1") == "yak node kill 1"
    assert LocalClusterControl(str(tmp_path / "my data")).command("node kill 1") == (
        f"yak node kill 1 --data-dir '{os.path.realpath(tmp_path)}/my data'"
    )
