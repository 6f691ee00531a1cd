"""A follower of many partitions: one fetch, and one answer, is about a bounded number of them."""

from __future__ import annotations

import struct

import pytest

from yak.errors import ErrorCode
from yak.replication import replica_fetcher
from yak.sim.cluster_rig import ClusterRig
from yak.sim.node import SimNode

BOUND = 3
PARTITIONS = 5 * BOUND + 1


@pytest.fixture
def rig() -> ClusterRig:
    rig = ClusterRig(size=2, hands_back=False)
    for node in rig.nodes:
        restart(rig, node)
    rig.create_topic("many", partitions=PARTITIONS, replication_factor=2)
    rig.run_until(lambda: all(rig.is_in_sync("many", index) for index in range(PARTITIONS)))
    return rig


def restart(rig: ClusterRig, node: SimNode) -> None:
    node.partitions_a_fetch = BOUND
    node.kill()
    node.start()
    rig.run_until(lambda: node.is_ready)


def counted(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[int]]:
    """How many partitions each fetch from now on names, and each answer has."""
    named, answered = list[int](), list[int]()
    request, decode = replica_fetcher.replica_fetch_request, replica_fetcher.decode_replica_fetch_answer

    def requested(*args, topics, **more):
        named.append(sum(len(partitions) for _topic, partitions in topics))
        return request(*args, topics=topics, **more)

    def decoded(frame):
        answer = decode(frame)
        answered.append(len(answer.partitions))
        return answer

    monkeypatch.setattr(replica_fetcher, "replica_fetch_request", requested)
    monkeypatch.setattr(replica_fetcher, "decode_replica_fetch_answer", decoded)
    return named, answered


def test_new_fetch_session_names_its_partitions_in_several_fetches(rig, monkeypatch):
    named, _answered = counted(monkeypatch)
    restart(rig, rig.nodes[1])
    rig.run_until(lambda: all(rig.is_in_sync("many", index) for index in range(PARTITIONS)))
    assert max(named) == BOUND
    assert sum(named) >= PARTITIONS


def test_appends_to_many_partitions_come_in_several_answers_and_none_stays_behind(rig, monkeypatch):
    named, answered = counted(monkeypatch)
    rig.cluster.cut("n1", "n2")
    for index in range(PARTITIONS):
        rig.begin_produce("many", [b"a"], partition=index, acks=1)
    rig.run_for(20)
    rig.cluster.heal("n1", "n2")
    ends = [(node.node_id, index) for node in rig.nodes for index in range(PARTITIONS)]
    rig.run_until(lambda: all(rig.replica(node_id, "many", index).high_watermark == 1 for node_id, index in ends))
    assert max(named) == BOUND
    # the named partitions and as many marked ones
    assert max(answered) <= 2 * BOUND


def test_high_watermarks_of_many_partitions_reach_an_idle_follower_in_several_answers(rig, monkeypatch):
    pending = [rig.begin_produce("many", [b"a"], partition=index, acks=-1) for index in range(PARTITIONS)]
    _named, answered = counted(monkeypatch)
    rig.run_until(lambda: all(each.is_done for each in pending))
    ends = [(node.node_id, index) for node in rig.nodes for index in range(PARTITIONS)]
    rig.run_until(lambda: all(rig.replica(node_id, "many", index).high_watermark == 1 for node_id, index in ends))
    assert max(answered) <= 2 * BOUND


def test_session_lost_with_two_fetches_in_flight_keeps_the_connection(rig):
    """The leader refuses both, and only then the next session begins."""
    leader = rig.leader("many", 0)
    fetcher = rig.nodes[3 - leader - 1].broker.replica_fetchers._fetchers[leader]
    channel, peer_id = fetcher._channel, fetcher._channel._peer_id
    rig.nodes[leader - 1].pause()
    key, partition = next(iter(fetcher.partitions.items()))
    fetcher._name(key, partition, partition.log)
    fetcher.send_due()
    first, second = channel.in_flight
    for correlation_id in (first, second):
        assert channel.in_flight[0] == correlation_id
        refusal = struct.pack(">iBihiBB", correlation_id, 0, 0, ErrorCode.fetch_session_id_not_found, 0, 1, 0)
        channel.on_answer(peer_id, memoryview(refusal))
    assert list(channel.in_flight) == [second + 1]
    assert (channel.is_proven, channel._peer_id) == (True, peer_id)
