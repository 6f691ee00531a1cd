"""`yak doctor` against a real cluster, a dead one, and none."""

import os
import signal
import zipfile
from typing import Any

OF_THE_CLUSTER = {
    "dns", "tcp", "protocol", "advertised", "brokers", "authentication", "replicas", "local cluster", "redis",
    "redis safety", "clock",
}  # fmt: skip
OTHERS = {"faults", "lease", "port", "disk", "fsync", "open files", "terminal"}


def states(ran: Any) -> dict[str, str]:
    return {finding["check"]: finding["state"] for finding in ran.json}


def test_a_healthy_local_cluster_passes_every_check_about_it(yak: Any) -> None:
    assert yak.run("up", "-d", "--port", "0").code == 0
    ran = yak.run("doctor", "-o", "json", "--bundle", "help.zip")
    assert ran.code == 0, ran.out
    found = states(ran)
    assert set(found) == OF_THE_CLUSTER | OTHERS
    assert {found[check] for check in OF_THE_CLUSTER} == {"ok"}, ran.out
    with zipfile.ZipFile(yak.folder / "help.zip") as bundle:
        assert {"local/cluster.json", "local/node-1.log", "findings.json"} <= set(bundle.namelist())


def test_a_killed_broker_is_found_with_the_line_that_brings_it_back(yak: Any) -> None:
    up = yak.run("up", "-d", "--port", "0", "-o", "json")
    assert up.code == 0, up.err
    os.kill(up.json["brokers"][0]["pid"], signal.SIGKILL)
    ran = yak.run("doctor", "-o", "json")
    assert ran.code == 4
    (finding,) = [finding for finding in ran.json if finding["check"] == "local cluster"]
    assert finding["state"] == "FAIL"
    assert finding["try"].startswith("yak up -d")


def test_no_broker_is_exit_code_4_and_each_failure_says_what_to_try(yak: Any) -> None:
    ran = yak.run("doctor", "-b", "127.0.0.1:1")
    assert ran.code == 4
    assert "FAIL  tcp" in ran.out
    assert "try: yak up -d" in ran.out
