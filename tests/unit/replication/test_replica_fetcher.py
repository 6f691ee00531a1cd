"""A follower of many partitions: one fetch, and one answer, is about a bounded number of them."""

from __future__ import annotations

import struct

import pytest

from tests.cluster_rig import ClusterRig
from tests.unit.noted_calls import note_calls_by_step
from yak.errors import ErrorCode
from yak.replication import replica_fetcher
from yak.replication.replica_fetchers import ReplicaFetchers
from yak.sim.node import SimNode
from yak.storage.log import Log

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
    node.partitions_a_fetch, node.partitions_a_slice = BOUND, 1
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


def test_start_assigns_a_bounded_number_of_partitions_to_fetchers_in_a_turn(rig, monkeypatch):
    assigned: dict[SimNode, list[int]] = {node: [0] for node in rig.nodes}
    real, step = ReplicaFetchers._assign, SimNode._step

    def counting(self, partition, touched):
        for node in rig.nodes:
            if node.broker is not None and node.broker.replica_fetchers is self:
                assigned[node][-1] += 1
        real(self, partition, touched)

    def stepped(node, event):
        assigned[node].append(0)
        step(node, event)

    monkeypatch.setattr(ReplicaFetchers, "_assign", counting)
    monkeypatch.setattr(SimNode, "_step", stepped)
    node = rig.nodes[1]
    restart(rig, node)
    rig.run_until(lambda: all(rig.is_in_sync("many", index) for index in range(PARTITIONS)))
    assert sum(assigned[node]) >= PARTITIONS
    # a slice of the image changes as many partitions besides
    assert max(assigned[node]) <= BOUND + node.partitions_a_slice


def test_appends_to_many_partitions_come_in_several_answers_and_none_stays_behind(rig, monkeypatch):
    named, answered = counted(monkeypatch)
    rig.cluster.cut("n1", "n2")
    for index in range(PARTITIONS):
        rig.begin_produce("many", [b"a"], partition=index, acks=1)
    rig.run_for(20)
    rig.cluster.reconnect("n1", "n2")
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
    fetcher._name(key, partition)
    fetcher.send_due()
    first, second = channel.in_flight
    for correlation_id in (first, second):
        assert channel.in_flight[0] == correlation_id
        refusal = struct.pack(">iBihiBB", correlation_id, 0, 0, ErrorCode.fetch_session_id_not_found, 0, 1, 0)
        channel.on_answer(peer_id, memoryview(refusal))
    assert list(channel.in_flight) == [second + 1]
    assert (channel.is_proven, channel._peer_id) == (True, peer_id)


class Rolling:
    """A follower that gets several records of each partition in one answer, each in a segment of its own."""

    RECORDS = 3

    def __init__(self, rig: ClusterRig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rig = rig
        rig.create_topic("small", partitions=PARTITIONS, replication_factor=2, segment_bytes="1024")
        rig.run_until(lambda: all(rig.is_in_sync("small", index) for index in range(PARTITIONS)))
        self.follower = rig.nodes[1]
        self.led = [index for index in range(PARTITIONS) if rig.leader("small", index) == 1]
        self._steps = note_calls_by_step(monkeypatch, self.follower.broker, Log, "roll")
        rig.cluster.cut("n1", "n2")
        for value in (b"x" * 600, b"y" * 600, b"z" * 600):
            for index in self.led:
                rig.begin_produce("small", [value], partition=index, acks=1)
            rig.run_for(20)
        rig.cluster.reconnect("n1", "n2")

    def rolls(self) -> list[int]:
        """How often the follower's logs were rolled in each of its steps."""
        return [sum(log.disk is self.follower.disk for log, _now_ms in rolled) for rolled in self._steps]

    def fetcher(self) -> replica_fetcher.ReplicaFetcher:
        return self.follower.broker.replica_fetchers._fetchers[1]

    def run_until_a_part_is_taken(self) -> None:
        self.rig.run_until(lambda: len(self.fetcher()._untaken) > 0)

    def check_copies(self) -> None:
        rig, count = self.rig, self.RECORDS
        rig.run_until(
            lambda: all(
                rig.is_in_sync("small", index) and rig.replica(node.node_id, "small", index).high_watermark == count
                for node in rig.nodes
                for index in self.led
            )
        )
        for index in self.led:
            there, here = (rig.replica(node.node_id, "small", index).log for node in rig.nodes)
            for offset in range(count):
                copies = [bytes(log.read(offset, 10_000, count, at_least_one=True)) for log in (there, here)]
                assert copies[0] == copies[1]


def test_answer_that_rolls_many_logs_is_taken_over_several_turns(rig, monkeypatch):
    rolling = Rolling(rig, monkeypatch)
    rolling.check_copies()
    assert sum(rolling.rolls()) >= 2 * len(rolling.led)
    # one partition's records may roll its log twice
    assert max(rolling.rolls()) <= 2


def test_answer_under_way_is_not_acknowledged_before_it_is_taken(rig, monkeypatch):
    rolling = Rolling(rig, monkeypatch)
    rolling.run_until_a_part_is_taken()
    fetcher = rolling.fetcher()
    untaken = [(fetched.topic_id, fetched.index) for _id, rest in fetcher._untaken for fetched in rest]
    assert untaken
    assert not set(untaken) & set(fetcher._to_name)
    in_flight = list(fetcher._channel.in_flight)
    fetcher.send_due()
    assert list(fetcher._channel.in_flight) == in_flight
    rolling.check_copies()


@pytest.mark.parametrize("what", ["connection", "leader", "kill", "stop"])
def test_answer_of_which_a_part_is_taken_may_end_with(rig, monkeypatch, what):
    rolling = Rolling(rig, monkeypatch)
    rolling.run_until_a_part_is_taken()
    if what == "connection":
        rolling.fetcher().restart()
        assert not rolling.fetcher()._untaken
    elif what == "leader":
        rig.elect("small", 2)
    elif what == "kill":
        rolling.follower.kill()
        rolling.follower.start()
    else:
        rolling.follower.stop()
        rig.run_until(lambda: rolling.follower.broker is None)
        rolling.follower.start()
    rolling.check_copies()


@pytest.mark.parametrize(("timeout_ms", "is_unanswered"), [("1500", True), ("30000", False)])
def test_fetch_that_a_leader_leaves_unanswered_ends_after_replica_socket_timeout(timeout_ms, is_unanswered):
    rig = ClusterRig(size=2, settings={"replica.socket.timeout.ms": timeout_ms})
    rig.create_topic("one", partitions=1, replication_factor=2)
    rig.run_until(lambda: rig.is_in_sync("one", 0))
    leader, (follower,) = rig.leader("one"), rig.followers("one")
    rig.nodes[leader - 1].pause()
    rig.run_for(1_400)
    assert "replica-fetch-unanswered" not in rig.events(follower)
    rig.run_for(700)
    assert ("replica-fetch-unanswered" in rig.events(follower)) is is_unanswered


def test_fetch_after_an_overdue_one_requests_half_as_much_until_answers_are_fast_again(monkeypatch):
    """A link that needs longer than replica.socket.timeout.ms for a full answer would never bring one."""
    rig = ClusterRig(size=2, settings={"replica.socket.timeout.ms": "4000"})
    rig.create_topic("one", partitions=1, replication_factor=2)
    rig.run_until(lambda: rig.is_in_sync("one", 0))
    follower = rig.nodes[rig.followers("one")[0] - 1]
    asked = list[tuple[int, int]]()
    request = replica_fetcher.replica_fetch_request

    def requested(*args, max_bytes, topics, **more):
        asked.extend((max_bytes, partitions[0].max_bytes) for _topic, partitions in topics)
        return request(*args, max_bytes=max_bytes, topics=topics, **more)

    monkeypatch.setattr(replica_fetcher, "replica_fetch_request", requested)
    rig.nodes[rig.leader("one") - 1].pause()
    rig.run_until(lambda: "replica-fetch-unanswered" in rig.events(follower.node_id))
    rig.nodes[rig.leader("one") - 1].resume()
    rig.run_until(lambda: bool(asked))
    config = follower.broker.context.config
    whole = (config.replica_fetch_response_max_bytes, config.replica_fetch_max_bytes)
    assert asked == [(whole[0] // 2, whole[1] // 2)]
    rig.run_for(2_000)
    rig.produce("one", [b"more"])
    rig.run_until(lambda: len(asked) > 1)
    assert asked[-1] == whole
