"""`yak metadata log`: records as sentences, and as JSON."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from yak.cluster.image_log import ImageLog
from yak.local import layout
from yak.local.metadata_log import METADATA_FOLDER
from yak.local.state import BrokerState, ClusterState, RedisState, save, state_path
from yak.ports.metadata_store import TailedRecord
from yak.server.disk import RealDisk

TOPIC_ID = "6f1e2a3b-0000-4000-8000-000000000001"


def record(offset: int, kind: str, **payload: Any) -> TailedRecord:
    previous = f"h{offset - 1}" if offset > 1 else ""
    return TailedRecord(
        offset, f"h{offset}", kind, 1_795_176_000_000, {"version": 0, **payload}, previous_hash=previous
    )


RECORDS = [
    record(1, "Cluster", cluster_id="c", incarnation=1, incarnation_id="i", format=0),
    record(2, "Topic", topic_id=TOPIC_ID, name="orders", partitions=1, configs={}),
    record(
        3, "Partition", topic_id=TOPIC_ID,
        partitions=[{"partition": 0, "replicas": "1,2", "isr": "1@1,2@1", "leader": 1, "leader_epoch": 0, "partition_epoch": 0}],
    ),
    record(4, "FromTheFuture", field=3),
]  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> str:
    disk = RealDisk()
    log, _ = ImageLog.open(disk, str(tmp_path / METADATA_FOLDER))
    log.append(RECORDS).run(disk)
    return str(tmp_path)


def test_metadata_log_has_a_sentence_for_each_record(yak, directory):
    ran = yak("metadata", "log", "--data-dir", directory)
    assert ran.code == 0, ran.err
    assert [line.split(maxsplit=3)[3] for line in ran.out.splitlines()] == [
        "CHANGE",
        "the cluster is c, incarnation 1",
        "topic orders has 1 partition",
        "partitions of orders: 0 led by 1",
        "version 0, field 3",
    ]


def test_metadata_log_names_topics_whose_record_is_not_printed(yak, directory):
    ran = yak("metadata", "log", "--data-dir", directory, "--from", "3", "--no-headers")
    assert "partitions of orders: 0 led by 1" in ran.out.splitlines()[0]


def test_metadata_log_that_follows_prints_only_the_records_from_the_given_one_on(yak, directory, monkeypatch):
    newer = [record(5, "FromTheFuture", field=5), record(6, "FromTheFuture", field=6)]
    monkeypatch.setattr("yak.local.metadata_log.CopySource.follow", lambda _source, _after: iter(newer))
    ran = yak("metadata", "log", "--data-dir", directory, "--from", "6", "--follow", "--no-headers")
    assert [line.split()[0] for line in ran.out.splitlines()] == ["6"]


def test_metadata_log_in_json_has_the_payload(yak, directory):
    ran = yak("metadata", "log", "--data-dir", directory, "-o", "json")
    assert [json.loads(line)["payload"] for line in ran.out.splitlines()] == [each.payload for each in RECORDS]


def test_metadata_log_in_a_zone_keeps_its_columns(yak, directory, monkeypatch):
    monkeypatch.setenv("YAK_TZ", "Europe/Berlin")
    head, first, *_ = yak("metadata", "log", "--data-dir", directory).out.splitlines()
    assert head.index("KIND") == first.index("Cluster")


@pytest.mark.parametrize("metadata", ["redis", "raft"])
def test_metadata_log_of_a_copied_directory_reads_the_copy(yak, directory, tmp_path, metadata):
    """It read the original cluster: its Redis, or its brokers' copies."""
    original, copy = str(tmp_path / "original"), tmp_path / "copy"
    broker = BrokerState(1, "leader", "127.0.0.1", 1, layout.node_dir(original, 1))
    (copy / "node-1").mkdir(parents=True)
    os.rename(os.path.join(directory, METADATA_FOLDER), copy / "node-1" / METADATA_FOLDER)
    known = ClusterState(
        str(copy), RedisState("redis://127.0.0.1:1/0", is_ours=True), "c", brokers=[broker], metadata=metadata
    )
    save(known)
    state_path(str(copy)).write_text(state_path(str(copy)).read_text().replace(str(copy), original))
    ran = yak("metadata", "log", "--data-dir", str(copy))
    assert ran.code == 0, ran.err
    assert "topic orders has 1 partition" in ran.out
