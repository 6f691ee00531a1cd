"""Answers that have no result for what was requested, and damaged ones: an error that says so, never one of YAK."""

from types import SimpleNamespace
from typing import Any

import pytest
from fake_brokers import FakeBroker
from kio.schema.errors import ErrorCode

from yak.client.groups import group_brokers
from yak.client.groups.descriptions import describe_groups
from yak.client.groups.group_brokers import GroupBrokers
from yak.client.groups.offsets import commit_offsets, delete_groups, delete_offsets
from yak.client.metadata import Broker, ClusterMetadata, Partition, Topic
from yak.client.quorum import describe_quorum
from yak.client.quotas import alter_quotas
from yak.client.raw_connection import RawConnection, call_once
from yak.client.replica_offsets import damaged_offsets
from yak.client.store_moves import set_target
from yak.client.transactions import OpenTransaction, abort_transaction
from yak.errors import Unreachable, WaitTimeout, YakError
from yak.ids import TopicPartition
from yak.view.groups import Group
from yak.views.described_groups import CLASSIC, CONSUMER

ORDERS = TopicPartition("orders", 0)
EMPTY: dict[int, dict[str, Any]] = {
    **{key: {"topics": []} for key in (8, 47, 55)},
    **{key: {"groups": []} for key in (15, 69)},
    **{key: {"results": []} for key in (32, 42)},
    27: {"markers": []},
    44: {"responses": []},
    49: {"entries": []},
}
"""By API key: an answer without results."""


class Cluster:
    """One broker with empty answers that coordinates every group, unless `has_coordinator` is false."""

    def __init__(self) -> None:
        self.has_coordinator = True
        answers = {key: lambda _, fields=fields: fields for key, fields in EMPTY.items()}
        self.broker = FakeBroker(answers | {10: self.find}, lists=(55, 80, 81))
        self.address = self.broker.address
        self.node = Broker(1, "127.0.0.1", self.broker.port)
        topics = {"orders": Topic("orders", (Partition(0, 1, (1,), (1,)),))}
        self.metadata = ClusterMetadata("c", 1, {1: self.node}, topics)

    def find(self, request: Any) -> dict[str, Any]:
        keys = request.coordinator_keys if self.has_coordinator else ()
        place = {"node_id": 1, "host": "127.0.0.1", "port": self.broker.port, "error_code": 0, "error_message": None}
        return {"coordinators": [{"key": key, **place} for key in keys]}


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(group_brokers, "PAUSE_S", 0.005)
    made = Cluster()
    yield made
    made.broker.close()


@pytest.fixture
def groups(cluster):
    admin = SimpleNamespace(timeout_s=1.0, answered=cluster.address, metadata=lambda: cluster.metadata)
    with GroupBrokers(admin) as made:
        yield made


def test_groups_that_an_answer_lacks_are_errors(groups):
    listed = [Group("g", each, "Stable", "consumer", 1) for each in (CLASSIC, CONSUMER)]
    for found in (*(describe_groups(groups, [each])["g"] for each in listed), delete_groups(groups, ["g"])["g"]):
        assert isinstance(found, YakError)
        assert found.kafka_code == int(ErrorCode.unknown_server_error)


def test_group_without_coordinator_in_the_answer_is_an_error(cluster, groups):
    cluster.has_coordinator = False
    found = delete_groups(groups, ["g"])["g"]
    assert isinstance(found, YakError)
    assert "the answer has no coordinator" in found.why


def test_offsets_that_an_answer_lacks_are_not_committed_or_deleted(groups):
    for found in (commit_offsets(groups, "g", {ORDERS: 5}), delete_offsets(groups, "g", [ORDERS])):
        assert isinstance(found[ORDERS], YakError)


def test_changes_without_a_result_are_not_made(cluster):
    with pytest.raises(YakError, match="the quotas were not changed") as caught:
        alter_quotas(cluster.address, (("user", "ann"),), {}, validate_only=False, timeout_s=5)
    assert "the answer has no result" in caught.value.why
    with pytest.raises(WaitTimeout) as late:
        set_target({1: cluster.address}, "raft", timeout_s=0.1)
    assert "the answer has no result" in late.value.why
    found = OpenTransaction(ORDERS, 7, 0, 0, 3, 1000)
    with pytest.raises(Unreachable) as unknown:
        abort_transaction(cluster.metadata, found, timeout_s=5)
    assert (unknown.value.code, unknown.value.why) == ("not-aborted", "no answer")


def test_quorum_and_configs_that_an_answer_lacks_are_not_known(cluster):
    with pytest.raises(Unreachable, match="the metadata quorum") as caught:
        describe_quorum(cluster.address, timeout_s=1)
    assert caught.value.why == "the answer has no result"
    assert damaged_offsets({1: cluster.node}, "orders", timeout_s=5) == {}


def test_answer_with_a_count_beyond_its_bytes_is_an_error():
    """kio allocated 16 GiB for it, and Rust ended the process."""
    broker = FakeBroker({66: lambda _: bytes(6) + b"\x01" + b"\xff\xff\xff\xff\x07" + bytes(50)})
    fields = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
    with RawConnection(broker.address, timeout_s=5) as connection, pytest.raises(OSError, match="an array of"):
        connection.call((66, 1), fields)
    with pytest.raises(Unreachable, match="not listed"):
        call_once(broker.address, (66, 1), fields, "not listed", 5)
    broker.close()
