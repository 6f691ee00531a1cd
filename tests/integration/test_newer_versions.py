"""Files and records that a newer YAK wrote: the broker says which, ends, and changes nothing."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from support.refusals import check_error, fingerprint
from support.waiting import wait_until

from yak.cluster.image_log import _entries, _entry, _frame
from yak.cluster.records import RECORD_VERSION
from yak.ports.metadata_store import TailedRecord

Edit = Callable[[Path], None]


def with_line(number: int, old: str, new: str) -> Edit:
    """Replace a line of a text file."""

    def edit(path: Path) -> None:
        lines = path.read_text().split("\n")
        assert lines[number] == old, lines
        lines[number] = new
        path.write_text("\n".join(lines))

    return edit


def with_json(name: str, value: int) -> Edit:
    """Replace a field of a JSON file."""

    def edit(path: Path) -> None:
        fields = json.loads(path.read_text())
        assert name in fields
        path.write_text(json.dumps(fields | {name: value}))

    return edit


def with_metadata_record(path: Path) -> None:
    """Append a record to a copy of the metadata log."""
    data = path.read_bytes()
    last = _entries(data)[0][-1]
    payload: dict[str, object] = {"version": RECORD_VERSION + 1}
    record = TailedRecord(last.offset + 1, "ff" * 20, last.kind, last.timestamp_ms, payload, last.chain_hash)
    path.write_bytes(data + _frame(json.dumps(_entry(record))))


FILES: list[tuple[str, Edit, str, str, str]] = [
    # file, edit, error, what is found, what is known
    ("meta.properties", with_line(1, "version=1", "version=2"), "data-dir-version", "version 2", "version 1"),
    *(
        (name, with_line(0, "0", "7"), "data-dir-version", "version 7", "than 0")
        for name in (
            "recovery-point-offset-checkpoint",
            "log-start-offset-checkpoint",
            "replication-offset-checkpoint",
            "kept-0/leader-epoch-checkpoint",
        )
    ),
    (".kafka_cleanshutdown", with_json("version", 3), "data-dir-version", "version 3", "than 0"),
    ("kept-0/partition.metadata", with_line(0, "version: 0", "version: 4"), "data-dir-version", "version 4", "than 0"),
    (
        "__yak_metadata/*.log",
        with_metadata_record,
        "metadata-unreadable",
        f"version {RECORD_VERSION + 1}",
        f"than {RECORD_VERSION}",
    ),
]
QUORUM_FILES: list[tuple[str, Edit, str, str, str]] = [
    ("__yak_metadata/quorum-state", with_json("data_version", 2), "quorum-state-unreadable", "version 2", "reads 1"),
    (
        "__yak_metadata/__cluster_metadata-0/partition.metadata",
        with_line(0, "version: 0", "version: 1"),
        "data-dir-version",
        "version 1",
        "than 0",
    ),
]


@pytest.fixture
def quorum_data(yak: Any, tmp_path: Path) -> Path:
    """The data directory of a broker that is its own metadata quorum, cleanly stopped."""
    data = tmp_path / "quorum"
    child = yak.start(*quorum_start(data), "--ready-file", str(tmp_path / "ready"))
    wait_until((tmp_path / "ready").exists, "the broker is ready", 30)
    child.terminate()
    assert child.wait(30) == 0
    return data


def quorum_start(data: Path) -> list[str]:
    return ["serve", "--metadata", "raft", "--port", "0", "--no-http", "--data-dir", str(data)]


def unchanged(data: Path) -> dict[str, str]:
    """Content and mode of everything, without the times: a start takes the lock, and puts the clean mark back."""
    return {name: re.sub(r"(?<= )\d{15,}", "", each) for name, each in fingerprint(data).items() if name != ".lock"}


def refused(ran: Any, file: Path, slug: str, found: str, known: str) -> None:
    check_error(ran, 1, slug, str(file), found, known, "nothing was changed")


@pytest.mark.parametrize(("name", "edit", "slug", "found", "known"), FILES, ids=[each[0] for each in FILES])
def test_a_file_of_a_newer_version_ends_the_start(data, yak, redis_databases, name, edit, slug, found, known):
    (file,) = data.glob(name)
    edit(file)
    before = unchanged(data)
    with redis_databases.borrow() as url:
        ran = yak.run("serve", "--port", "0", "--data-dir", str(data), "--redis-url", url)
    refused(ran, file, slug, found, known)
    assert unchanged(data) == before


@pytest.mark.parametrize(
    ("name", "edit", "slug", "found", "known"), QUORUM_FILES, ids=[each[0] for each in QUORUM_FILES]
)
def test_a_file_of_a_newer_quorum_ends_the_start(quorum_data, yak, name, edit, slug, found, known):
    file = quorum_data / name
    edit(file)
    before = unchanged(quorum_data)
    refused(yak.run(*quorum_start(quorum_data)), file, slug, found, known)
    assert unchanged(quorum_data) == before


def test_the_state_of_yak_up_of_a_newer_version_is_refused(yak):
    assert yak.run("up", "-d", "--port", "0", "--no-http").code == 0
    assert yak.run("down").code == 0
    file = Path(yak.folder) / "yak-data" / "cluster.json"
    with_json("version", 2)(file)
    before = file.read_bytes()
    for command in (("up", "-d"), ("down",), ("node", "restart", "1")):
        check_error(yak.run(*command), 1, "cluster-state", str(file), "version 2", "reads 1", "nothing was changed")
    assert file.read_bytes() == before
    with_json("version", 1)(file)  # for what stops the cluster behind the test


def test_a_metadata_record_of_a_newer_version_in_redis_ends_the_start(broker, yak, tmp_path):
    broker.start()
    broker.stop()
    with redis.Redis.from_url(broker.redis_url, decode_responses=True) as client:
        head = client.hgetall("{y}:cluster")
        offset = int(head["mo"]) + 1
        payload = json.dumps({"version": RECORD_VERSION + 1})
        fields = {"h": "ff" * 20, "kind": "Config", "t": "1", "payload": payload, "p": head["h"]}
        client.xadd("{y}:log", fields, id=f"{offset}-0")
        client.hset("{y}:cluster", mapping={"mo": offset, "h": "ff" * 20})
    before = topics_of(broker.redis_url)
    words = ("--node-id", "2", "--redis-url", broker.redis_url)
    ran = yak.run("serve", "--port", "0", "--data-dir", str(tmp_path / "new"), *words)
    assert ran.code == 1
    assert re.search(r"^error\[metadata-unreadable\]: ", ran.err, re.MULTILINE), ran.err
    assert f"record {offset}" in ran.err
    assert f"version {RECORD_VERSION + 1} is newer than {RECORD_VERSION}" in ran.err
    assert "Traceback" not in ran.err
    assert topics_of(broker.redis_url) == before


def topics_of(url: str) -> dict[str, str]:
    """The keys of topics and their partitions in Redis, with their content."""
    with redis.Redis.from_url(url) as client:
        keys = [key for key in client.keys("{y}:*") if b"topic" in key or b"part" in key]
        return {key.decode(): repr(client.dump(key)) for key in sorted(keys)}
