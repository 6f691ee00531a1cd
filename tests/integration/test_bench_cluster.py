"""`yak bench failover` and `yak bench replication` on real brokers: small runs that must come out whole."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from yak.local.spawn import yak_argv

SECONDS_MAX = 120


def bench(folder: Path, *words: str) -> dict[str, Any]:
    """What the benchmark printed as JSON; its code must be 0, and its temporary directory gone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("YAK_")}
    environment = {**kept, "HOME": str(folder), "TMPDIR": str(folder), "NO_COLOR": "1"}
    ran = subprocess.run(
        yak_argv("bench", *words, "-o", "json", "-q"),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env=environment,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert not list(folder.glob("yak-bench-*"))
    return json.loads(ran.stdout)  # type: ignore[no-any-return]


def test_a_killed_leader_costs_a_pause_and_no_record(tmp_path: Path) -> None:
    found = bench(tmp_path, "failover", "--kills", "1")
    assert (found["kills"], found["controllers_killed"]) == (1, 1)
    assert (found["lost"], found["duplicated"], found["reordered"], found["moved"]) == (0, 0, 0, 0)
    assert (found["seen_and_gone"], found["errors"]) == (0, 0)
    assert found["acknowledged"] > 1000
    for kill in found["per_kill"]:
        assert kill["partitions_led"]
        assert 0 < kill["writes_ms"] < 10_000


@pytest.mark.thorough
def test_every_figure_of_replication_is_there(tmp_path: Path) -> None:
    found = bench(tmp_path, "replication", "--quick", "--idle-partitions", "10", "--away", "100MB", "--ack-time", "1s")
    names = {each["name"] for each in found["figures"]}
    assert {
        "produce 100 B, 1 partition, 1 client",
        "produce 1 KB, 16 partitions, 1 client: all processes",
        "ack at 500 records/s: p99",
        "10 idle partitions: node 1",
        "follower back after 0.01 GB: caught up",
        "follower back after 0.01 GB: clients meanwhile",
    } <= names
    # Redis may have nothing to do during a short load
    may_be_idle = [each for each in found["figures"] if "idle" in each["name"] or each["name"].endswith(": redis")]
    assert all(each["value"] > 0 for each in found["figures"] if each not in may_be_idle)
