"""What the doctor finds, and that each warning and failure says what to try."""

import io
import json
import socket
import sys
import zipfile
from collections.abc import Iterator
from unittest.mock import MagicMock

import pytest

from tests.listeners import answering
from yak.client.members import Member
from yak.local.checks import bundle, machine, network, store
from yak.local.checks.finding import Finding
from yak.security.redis_url import without_password
from yak.view.broker_state import SeenState
from yak.view.partition_replicas import PartitionReplicas


@pytest.fixture
def web_server() -> Iterator[str]:
    """Answers anything as a web server would."""
    with answering(lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        yield address


def states(findings: list[Finding]) -> dict[str, str]:
    return {finding.check: finding.state for finding in findings}


def test_a_closed_port_fails_at_tcp_and_says_how_to_start_a_cluster():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    findings = network.check_network(address, 1.0)
    assert states(findings) == {"dns": "ok", "tcp": "FAIL", "advertised": "skip", "replicas": "skip"}
    assert findings[1].try_ == "yak up -d"


def test_a_name_without_an_address_fails_at_dns():
    findings = network.check_network("no-such-host.invalid:9092", 1.0)
    assert states(findings)["dns"] == "FAIL"


def test_a_web_server_is_not_taken_for_a_broker(web_server):
    findings = network.check_network(web_server, 2.0)
    assert states(findings)["protocol"] == "FAIL"
    assert "HTTP" in next(finding.detail for finding in findings if finding.check == "protocol")


def test_broker_that_advertises_loopback_to_other_machines_fails():
    (finding,) = network.check_advertised("broker.example.org:9092", {1: "127.0.0.1:9092"}, 0.1)
    assert finding.state == "FAIL"
    assert "the client's own machine" in finding.detail
    assert finding.try_ == "start node 1 with --advertised broker.example.org:9092"


def test_advertised_address_that_no_broker_answers_fails():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    (finding,) = network.check_advertised("127.0.0.1:9092", {1: f"127.0.0.1:{port}"}, 0.5)
    assert finding.state == "FAIL"


def frozen(*nodes: int) -> list[Member]:
    said = {"yak.metadata.state": "FROZEN", "yak.metadata.reason": "the store lost its history"}
    return [Member(node, "a:1", None, SeenState.ACTIVE, said) for node in nodes]


@pytest.mark.parametrize(
    ("members", "detail"),
    [
        ([Member(1, "a:1", None, SeenState.ACTIVE, {"yak.metadata.state": "ACTIVE"})], ""),
        ([Member(1, "a:1", None, SeenState.ACTIVE)], ""),
        (
            [*frozen(1, 2), Member(3, None, None, SeenState.FENCED)],
            "node 3 is FENCED; session of node 1, 2 with the metadata store: FROZEN: the store lost its history",
        ),
    ],
)
def test_brokers_that_are_down_or_without_metadata_store_fail(monkeypatch, members, detail):
    monkeypatch.setattr("yak.client.admin.Admin", MagicMock())
    monkeypatch.setattr("yak.client.members.read_members", lambda *_args, **_options: members)
    finding = network.check_brokers("a:1", 0.1)
    assert (finding.state, finding.try_) == (("FAIL", "yak cluster -b a:1") if detail else ("ok", ""))
    assert not detail or finding.detail == detail


@pytest.mark.parametrize(
    ("leader", "isr", "state"), [(1, (1, 2, 3), "ok"), (1, (1, 2), "warn"), (1, (1,), "FAIL"), (-1, (), "FAIL")]
)
def test_doctor_replicas_follow_the_state_of_partitions(leader, isr, state):
    partition = PartitionReplicas("t", 0, leader, 0, 0, (1, 2, 3), isr, 0, {}, min_isr=2)
    assert network.check_replicas([partition]).state == state


@pytest.mark.parametrize(
    ("lease", "renew", "state"), [(3.0, 1.5, "ok"), (3.0, 1.0, "ok"), (3.0, 2.0, "warn"), (10.0, 10.0, "FAIL")]
)
def test_a_lease_must_be_renewed_before_it_ends(lease, renew, state):
    finding = machine.check_lease(lease, renew)
    assert finding.state == state
    assert bool(finding.try_) == (state != "ok")


def test_disk_and_fsync_are_measured_where_the_data_would_be_made(tmp_path):
    wanted = tmp_path / "not" / "yet"
    assert machine.nearest_existing(str(wanted)) == str(tmp_path)
    assert str(tmp_path) in machine.check_disk(str(wanted)).detail
    assert "median" in machine.check_fsync(str(wanted)).detail
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: Usage())
    assert machine.check_disk(str(tmp_path)).state == "FAIL"


class Usage:
    """A disk with 1000 bytes left."""

    total = 10 * 2**30
    free = 1000


def test_a_port_held_by_something_else_is_a_warning(web_server):
    host, _, port = web_server.rpartition(":")
    finding = machine.check_port(host, int(port))
    assert finding.state == "warn"
    assert "is not a broker" in finding.detail


def test_host_that_is_not_of_this_machine_is_a_finding_and_does_not_end_the_doctor():
    finding = machine.check_port("192.0.2.1", 9092)
    assert finding.state == "FAIL"
    assert "cannot listen on 192.0.2.1:9092" in finding.detail


def test_open_files_are_displayed():
    assert "by default" in machine.check_open_files().detail


def test_a_missing_redis_fails_only_when_one_was_configured():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
    (configured,) = store.check_store(url, is_configured=True, timeout_s=0.5)
    assert configured.state == "FAIL"
    (default,) = store.check_store(url, is_configured=False, timeout_s=0.5)
    assert default.state == "skip"


@pytest.mark.parametrize(
    ("address", "command"),
    [("redis://h:1/0", "redis-cli -u redis://h:1/0"), ("unix:///run/a%20b.sock?db=1", "redis-cli -s '/run/a b.sock'")],
)
def test_advice_for_redis_is_a_command_that_redis_cli_understands(address, command):
    client = MagicMock()
    client.config_get.side_effect = lambda name: {name: "everysec" if name == "appendfsync" else "?"}
    finding = store._check_safety(client, {"role": "master"}, address)
    assert finding.state == "FAIL"
    assert finding.try_ == f"{command} config set appendonly yes"


def test_redis_with_replicas_is_not_safe():
    finding = store._check_safety(MagicMock(), {"role": "master", "connected_slaves": 1}, "redis://h:1/0")
    assert (finding.state, finding.detail) == ("FAIL", "it has 1 replicas: a failover loses acknowledged metadata")


def test_password_is_never_displayed():
    url = "redis://user:s3cret@host:6379/0"
    assert without_password(url) == "redis://user:***@host:6379/0"
    (finding,) = store.check_store("redis://user:s3cret@127.0.0.1:1/0", is_configured=True, timeout_s=0.5)
    assert "s3cret" not in finding.detail + finding.try_


def test_a_pipe_is_no_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert machine.check_terminal().state == "skip"


def test_the_bundle_holds_findings_versions_and_logs_but_no_password(tmp_path):
    logs = tmp_path / "data" / "logs"
    logs.mkdir(parents=True)
    (logs / "node-1.log").write_text("a line\n")
    path = tmp_path / "bundle.zip"
    finding = Finding("tcp", "FAIL", "refused", "yak up -d")
    bundle.write_bundle(str(path), [finding], {"redis_url": "redis://:pw@h:1/0", "port": 1}, str(tmp_path / "data"))
    with zipfile.ZipFile(path) as found:
        assert set(found.namelist()) == {"findings.json", "versions.json", "settings.json", "local/node-1.log"}
        assert json.loads(found.read("findings.json")) == [finding.as_json()]
        assert json.loads(found.read("settings.json")) == {"redis_url": "redis://:***@h:1/0", "port": 1}
        assert "yak" in json.loads(found.read("versions.json"))
