"""A follower that keeps up: its fetches are recognised, not decoded, and held to the same rules as any other."""

import struct
from dataclasses import replace

import pytest

from tests.cluster_rig import ClusterRig
from tests.unit.noted_calls import note_calls
from yak.broker import broker as core
from yak.cluster.records import BrokerState
from yak.core.events import FrameReceived, Reply
from yak.errors import ErrorCode
from yak.protocol.versions import FETCH

EPOCH_AT = 17
"""Of the session epoch, behind the request's header and limits."""


@pytest.fixture
def rig() -> ClusterRig:
    rig = ClusterRig()
    rig.create_topic("orders", partitions=2, min_insync_replicas="2")
    for partition in (0, 1):
        for _ in range(3):
            assert rig.produce("orders", [b"a"], partition=partition).error_code == 0
    return rig


@pytest.fixture
def decoded(monkeypatch):
    return note_calls(monkeypatch, core, "decode_request")


def fetches(decoded) -> list[int]:
    """The versions of the Fetch requests that were decoded."""
    return [version for api_key, version, *_ in decoded if api_key == FETCH]


class LastFetch:
    """The latest fetch of one follower of orders-0 at its leader, held back from it."""

    def __init__(self, rig: ClusterRig) -> None:
        self.leader = rig.nodes[rig.leader("orders") - 1].broker
        self.partition = rig.replica(self.leader.node_id, "orders")
        self.session, self.item = next(iter(self.partition.replica_sessions.items()))
        self.frame = b""
        step = self.leader.step

        def keep(event, now_ms):
            if type(event) is FrameReceived and event.connection_id == self.session.connection.connection_id:
                self.frame = bytes(event.frame)
                return []
            return step(event, now_ms)

        self.leader.step = keep
        rig.begin_produce("orders", [b"b"])
        rig.run_for(20)
        assert self.frame, "the follower sent nothing"
        self.step = step

    def send(self, frame: bytes | None = None) -> list[object]:
        """To the leader; its effects."""
        event = FrameReceived(self.session.connection.connection_id, memoryview(frame or self.frame))
        return self.step(event, self.leader.now_ms)

    def with_epoch(self, epoch: int) -> bytes:
        """The fetch with another session epoch."""
        data = bytearray(self.frame)
        (client_id_bytes,) = struct.unpack_from(">h", data, 8)
        struct.pack_into(">i", data, 11 + client_id_bytes + EPOCH_AT, epoch)
        return bytes(data)


def refusal(effects: list[object]) -> int:
    """The error code of the one answer."""
    (reply,) = effects
    assert isinstance(reply, Reply)
    return struct.unpack_from(">h", b"".join(map(bytes, reply.parts)), 13)[0]


def test_repeated_fetch_of_a_follower_is_not_decoded(rig, decoded):
    before = rig.replica(rig.leader("orders"), "orders").high_watermark
    for _ in range(10):
        assert rig.produce("orders", [b"b"]).error_code == 0
    assert rig.replica(rig.leader("orders"), "orders").high_watermark == before + 10
    assert fetches(decoded) == []


def test_repeated_fetch_updates_the_replica_as_any_other_fetch(rig, decoded):
    fetch = LastFetch(rig)
    replica = fetch.partition.replica_states[fetch.session.node_id]
    end = replica.log_end_offset
    assert fetch.send() == []
    assert replica.log_end_offset == end + 1 == fetch.partition.log.log_end_offset
    assert fetch.session.delayed_fetch is not None
    assert fetches(decoded) == []


def test_another_session_epoch_is_refused(rig):
    fetch = LastFetch(rig)
    (code,) = {refusal(fetch.send(fetch.with_epoch(fetch.session.epoch + step))) for step in (-1, 1)}
    assert code == ErrorCode.invalid_fetch_session_epoch


def test_new_image_is_checked_before_a_repeated_fetch_is_accepted(rig, decoded):
    fetch = LastFetch(rig)
    broker, node_id = fetch.leader, fetch.session.node_id
    info = broker.context.image.brokers[node_id]
    broker.context.image = replace(
        broker.context.image, brokers=broker.context.image.brokers | {node_id: replace(info, broker_epoch=999)}
    )
    assert refusal(fetch.send()) == ErrorCode.stale_broker_epoch
    broker.context.image = replace(
        broker.context.image, brokers=broker.context.image.brokers | {node_id: replace(info, state=BrokerState.CLOSED)}
    )
    assert refusal(fetch.send()) == ErrorCode.stale_broker_epoch
    broker.context.image = replace(broker.context.image, brokers=broker.context.image.brokers | {node_id: info})
    assert fetch.send() == []
    assert fetches(decoded) == [17, 17, 17]


def test_an_older_leader_epoch_is_fenced(rig, decoded):
    fetch = LastFetch(rig)
    fetch.partition.leader_epoch += 1
    effects = fetch.send()
    assert len(effects) == 1
    answer = b"".join(map(bytes, effects[0].parts))
    assert struct.unpack_from(">ih", answer, 37) == (0, ErrorCode.fenced_leader_epoch)
    assert fetches(decoded) == []


def test_partition_that_was_created_again_is_resolved_again(rig, decoded):
    fetch = LastFetch(rig)
    fetch.leader.partitions[fetch.partition.topic_partition] = None
    fetch.send()
    assert fetches(decoded) == [17]


def test_a_session_that_ended_has_no_say(rig, decoded):
    fetch = LastFetch(rig)
    fetch.leader.follower_sessions.forget_connection(fetch.session.connection)
    assert refusal(fetch.send()) == ErrorCode.fetch_session_id_not_found
    assert fetches(decoded) == [17]
    assert fetch.session.connection.replica_session is None
