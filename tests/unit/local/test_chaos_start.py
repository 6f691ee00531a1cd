"""What a chaos run leaves behind that does not come to its end."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from yak.errors import UsageError, YakError
from yak.local.chaos.cluster import ChaosCluster
from yak.local.chaos.node import OwnDisk
from yak.local.chaos.run import ChaosRun, ChaosSettings

WATCHER: Any = type("Watcher", (), {"phase": lambda *_: None})()


def run_in(folder: Path) -> None:
    ChaosRun(ChaosSettings(1, 5.0, (), brokers=1, data_dir=str(folder)), WATCHER).run()


def test_run_that_finds_no_redis_server_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("YAK_REDIS_SERVER", str(tmp_path / "missing"))
    with pytest.raises(UsageError, match="cannot be run"):
        run_in(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("error", "is_kept"), [(YakError("broker-ended", "node-1 ended"), True), (SystemExit(129), False)]
)
def test_logs_of_a_failed_start_are_retained_and_of_an_interrupted_start_are_not(tmp_path, monkeypatch, error, is_kept):
    def start(cluster: ChaosCluster) -> None:
        cluster.nodes[1].log_path.write_text("why it ended\n")
        raise error

    monkeypatch.setattr(ChaosCluster, "start", start)
    with pytest.raises(type(error)):
        run_in(tmp_path / "run")
    assert (tmp_path / "run").exists() is is_kept


def test_small_file_system_ends_with_a_run_that_is_killed(tmp_path):
    try:
        OwnDisk(tmp_path / "probe", 1 << 20).close()
    except OSError as error:
        pytest.skip(f"no small file system can be had: {error}")
    code = (
        "import os, sys, pathlib\nfrom yak.local.chaos.node import OwnDisk\n"
        "disk = OwnDisk(pathlib.Path(sys.argv[1]), 1 << 20)\nprint(disk._holder.pid, flush=True)\nos.kill(os.getpid(), 9)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "disk")], capture_output=True, text=True, check=False
    )
    holder = Path(f"/proc/{int(ran.stdout)}/stat")
    for _ in range(500):
        if not holder.exists() or holder.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    pytest.fail("the process that holds the file system still runs")
