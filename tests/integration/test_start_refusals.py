"""What a broker will not start on: it says what, why and how to repair it, ends with the right code, and touches nothing."""

import fcntl
import os
import re
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
import redis
from support.client_kinds import Confluent
from support.refusals import check_error, fingerprint
from support.waiting import wait_until

from yak.errors import StartRefused

KEPT = ("meta.properties", "kept-0/00000000000000000000.log", "kept-0/partition.metadata")


@pytest.fixture
def serve(yak, redis_databases):
    """Run `yak serve` with these arguments on an empty metadata store until it ends."""

    def run(*arguments: str) -> Any:
        with redis_databases.borrow() as url:
            return yak.run("serve", "--redis-url", url, "--redis-timeout", "5s", *arguments)

    return run


def edit_meta(data: Path, **lines: str) -> None:
    path = data / "meta.properties"
    text = path.read_text()
    for name, value in lines.items():
        key = name.replace("_", ".")
        text = re.sub(rf"^{re.escape(key)}=.*$", f"{key}={value}", text, flags=re.MULTILINE)
    path.write_text(text)


# ------------------------------------------------------------------------------------------------ the data directory


def test_the_data_of_another_node(data, serve):
    before = fingerprint(data)
    ran = serve("--node-id", "2", "--port", "0", "--data-dir", str(data))
    check_error(ran, 1, "data-dir-other-node", "node 1", "--node-id 1", "nothing was changed")
    assert fingerprint(data) == before


def test_the_data_of_another_cluster_than_the_metadata_store(data, broker, tmp_path, yak):
    broker.start(node_id=7)
    before = fingerprint(data)
    ran = yak.run("serve", "--port", "0", "--data-dir", str(data), "--redis-url", broker.redis_url)
    check_error(ran, 1, "wrong-cluster", "cluster")
    after = fingerprint(data)
    assert {name: after.get(name) for name in KEPT} == {name: before[name] for name in KEPT}
    assert ".kafka_cleanshutdown" in after


def test_two_directories_of_different_clusters(data, serve, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(data, other)
    shutil.rmtree(other / "kept-0")
    edit_meta(other, cluster_id="AAAAAAAAAAAAAAAAAAAAAA", directory_id="BBBBBBBBBBBBBBBBBBBBBA")
    before = fingerprint(data), fingerprint(other)
    ran = serve("--port", "0", "--data-dir", str(data), "--data-dir", str(other))
    check_error(ran, 1, "[a-z-]*cluster[a-z-]*")
    assert (fingerprint(data), fingerprint(other)) == before


def test_a_directory_and_its_copy(data, serve, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    shutil.rmtree(copy / "kept-0")
    before = fingerprint(data), fingerprint(copy)
    check_error(serve("--port", "0", "--data-dir", str(data), "--data-dir", str(copy)), 1, "data-dir-copied")
    assert (fingerprint(data), fingerprint(copy)) == before


def test_data_that_another_process_has_locked(data, serve):
    before = fingerprint(data)
    with (data / ".lock").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        check_error(serve("--port", "0", "--data-dir", str(data)), 1, "data-dir-locked", str(data))
    assert fingerprint(data) == before


def test_the_data_of_a_broker_that_runs(broker, yak):
    broker.start()
    ran = yak.run("serve", "--port", "0", "--data-dir", str(broker.data_dir), "--redis-url", broker.redis_url)
    check_error(ran, 1, "data-dir-locked", str(broker.pid))
    assert Confluent(broker.bootstrap).describe_cluster().brokers == {1: broker.bootstrap}


def test_a_directory_that_may_not_be_written(data, yak, redis_databases):
    if os.getuid() == 0:
        # root may write everything, but not into a read-only file system
        ran = yak.run("serve", "--port", "0", "--data-dir", "/proc/yak-data")
        check_error(ran, 1, "data-dir-not-usable", "/proc/yak-data")
        return
    data.chmod(0o500)
    try:
        ran = yak.run("serve", "--port", "0", "--data-dir", str(data))
        check_error(ran, 1, "data-dir-not-usable", str(data))
    finally:
        data.chmod(0o700)


def test_a_file_where_the_directory_should_be(serve, tmp_path):
    file = tmp_path / "file"
    file.write_text("precious")
    check_error(serve("--port", "0", "--data-dir", str(file)), 1, "data-dir-not-a-directory")
    assert file.read_text() == "precious"


APACHE_V1 = """#
#Mon Jan 05 10:00:00 UTC 2026
cluster.id=5L6g3nShT-eMCtK--X86sw
directory.id=Xp1lQ2TzSZ2bbFQ0VbdMfQ
node.id=4
version=1
"""
APACHE_V0 = "#\nbroker.id=1\ncluster.id=5L6g3nShT-eMCtK--X86sw\nversion=0\n"


@pytest.mark.parametrize(
    ("text", "slug"), [(APACHE_V1, "data-dir-other-node"), (APACHE_V0, "data-dir-version")], ids=["kraft", "zookeeper"]
)
def test_data_that_apache_kafka_made(data, serve, text, slug):
    (data / "meta.properties").write_text(text)
    before = fingerprint(data)
    check_error(serve("--port", "0", "--data-dir", str(data)), 1, slug, "nothing was changed")
    assert fingerprint(data) == before


def test_data_without_its_meta_properties(data, serve):
    (data / "meta.properties").unlink()
    before = fingerprint(data)
    check_error(serve("--port", "0", "--data-dir", str(data)), 1, "data-dir-unmarked", "nothing was changed")
    assert fingerprint(data) == before


def test_no_new_cluster_is_made_under_old_data(data, yak, redis_databases):
    """An empty store below the data of a known cluster waits for a restore, under the cluster's own id."""
    before = fingerprint(data)
    cluster_id = re.search(r"^cluster\.id=(.+)$", (data / "meta.properties").read_text(), re.MULTILINE)[1]
    with redis_databases.borrow() as url, redis.Redis.from_url(url, decode_responses=True) as client:
        child = yak.start("serve", "--port", "0", "--data-dir", str(data), "--redis-url", url)
        wait_until(lambda: client.hexists("{y}:offers", "1"), "the broker offers its image", 20)
        held = client.hgetall("{y}:cluster")
        assert (held["cluster_id"], held["state"]) == (cluster_id, "SEEDING")
        child.kill()
        child.wait(60)
    after = fingerprint(data)
    assert {name: after.get(name) for name in KEPT[1:]} == {name: before[name] for name in KEPT[1:]}


def test_the_harness_raises_what_the_broker_printed(data, make_broker, redis_databases, tmp_path):
    with redis_databases.borrow() as url:
        harness = make_broker(tmp_path / "b", url)
        harness.data_dir = data
        with pytest.raises(StartRefused) as refused:
            harness.start(node_id=3)
        assert refused.value.code == "data-dir-other-node"


# ------------------------------------------------------------------------------------------------ flags and addresses


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--no-such-flag",), ("--no-such-flag",)),
        (("--port", "70000"), ("70000",)),
        (("--port", "many"), ("many",)),
        (("--node-id", "-3"), ("-3",)),
        (("-c", "num.partitions=none"), ("num.partitions",)),
        (("-c", "no.such.config=1"), ("no.such.config",)),
        (("-c", "nonsense"), ("nonsense",)),
        (("--redis-url", "nonsense"), ("nonsense",)),
        (("--host", "999.1.1.1"), ("999.1.1.1",)),
        (("--host", "no-such-host.invalid"), ("no-such-host.invalid",)),
        (("--host", "203.0.113.7"), ("203.0.113.7",)),
        (("--log-format", "xml"), ("xml",)),
        (("--properties", "absent.properties"), ("absent.properties",)),
    ],
    ids=lambda value: "=".join(value) if value and str(value[0]).startswith("-") else "",
)
def test_a_bad_flag_or_address_ends_with_2_and_makes_nothing(yak, tmp_path, arguments, words):
    port = () if "--port" in arguments else ("--port", "0")
    ran = yak.run("serve", *port, "--data-dir", str(tmp_path / "data"), *arguments)
    check_error(ran, 2, "usage" if arguments == ("--no-such-flag",) else "[a-z-]+", *words)
    assert not (tmp_path / "data").exists()


def test_a_port_in_use(yak, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ran = yak.run("serve", "--port", port, "--data-dir", str(tmp_path / "data"))
    check_error(ran, 2, "address-in-use", port)
    assert not (tmp_path / "data").exists()
