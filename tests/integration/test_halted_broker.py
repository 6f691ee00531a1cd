"""A real broker with a bug in the middle of a change of state: it ends at once, and comes back with all it acknowledged."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import RedisDatabases
from support.loads import read_all
from support.local_clusters import write
from support.waiting import wait_until

from yak.local.cluster import LocalCluster

SITE = """
import os, sys
if "serve" in sys.orig_argv:
    from yak.replication.isr import IsrChanges
    real = IsrChanges.run
    def run(self):
        real(self)
        if os.path.exists({path!r}):
            os.unlink({path!r})
            raise ZeroDivisionError("planted by the test")
    IsrChanges.run = run
"""


@pytest.fixture
def bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Once this file exists, the next end of a turn of some broker raises, once."""
    path, site = tmp_path / "bug", tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE.format(path=str(path)), "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(site))
    return path


@pytest.fixture
def redis_url(redis_databases: RedisDatabases) -> Iterator[str]:
    """An empty database."""
    with redis_databases.borrow() as url:
        yield url


def test_serve_with_a_bug_in_replicated_state_ends_with_exit_code_6_and_no_clean_stop(bug, redis_url, tmp_path, yak):
    ready = tmp_path / "ready.json"
    words = ("serve", "--no-http", "--data-dir", str(tmp_path / "data"), "--redis-url", redis_url)
    broker = yak.start(*words, "--port", "0", "--ready-file", str(ready))
    wait_until(ready.exists, "the broker serves")
    bootstrap = json.loads(ready.read_text())["address"]
    write(bootstrap, "orders", "acknowledged")
    bug.touch()
    _out, err = broker.communicate(timeout=30)
    assert broker.returncode == 6
    assert err.count(" broker-halted ") == 1
    assert err.count("ZeroDivisionError: planted by the test\n") == 1
    assert " stopped " not in err
    ready.unlink()
    again = yak.start(*words, "--port", bootstrap.rpartition(":")[2], "--ready-file", str(ready))
    wait_until(ready.exists, "the broker serves")
    assert read_all(bootstrap, "orders") == [b"acknowledged"]
    again.send_signal(signal.SIGTERM)
    assert again.wait(30) == 0


def test_up_starts_a_broker_again_that_halted(bug, tmp_path, yak):
    up = yak.start("up", "--port", "0", "--no-http", "--seed-topic", "orders:1")
    cluster = LocalCluster(str(tmp_path / "yak-data"))

    def running(other_than: int | None = None) -> Any:
        brokers = cluster.status().brokers
        return next((each for each in brokers if each.state == "running" and each.pid != other_than), None)

    assert up.stdout.readline().startswith("NODE"), up.stderr.read()  # from then on it watches the broker
    before = running()
    write(before.address, "orders", "acknowledged")
    bug.touch()
    wait_until(lambda: running(other_than=before.pid), "the broker runs again")
    assert read_all(before.address, "orders") == [b"acknowledged"]
    up.send_signal(signal.SIGINT)
    _out, err = up.communicate(timeout=60)
    assert up.returncode == 0
    assert "node 1 had halted and was started again" in err
