"""A client that poses as a broker: it fetches as a follower, with the node id and broker epoch of a real one (ADR
0014).

Metadata responses show every client all that identifies a broker. No client has the cluster's secret, so every such
fetch is refused, both after a refused proof and without one.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from yak.cluster.payload import parse_isr
from yak.protocol.peer_proof import MECHANISM, NONCE_BYTES, PROOF_BYTES, Hello, Incarnation
from yak.sim.clients import Stoppable
from yak.sim.deliveries import Violation
from yak.sim.routing import Connection

if TYPE_CHECKING:
    from yak.cluster.payload import IsrMember
    from yak.replication.partition import Partition
    from yak.sim.cluster import Cluster
    from yak.sim.deliveries import Deliveries
    from yak.sim.seeded_random import SeededRandom

FETCH, FETCH_VERSION = 1, 17
HANDSHAKE, HANDSHAKE_VERSION = 17, 1
AUTHENTICATE, AUTHENTICATE_VERSION = 36, 2
PERCENT = 40
"""The percentage of seeds that have one."""


class Impostor(Stoppable):
    """Sends a fetch at the leader's log end offset now and then; if accepted, it would commit unreplicated records."""

    def __init__(self, cluster: Cluster, rng: SeededRandom, deliveries: Deliveries) -> None:
        self._cluster = cluster
        self._rng = rng
        self._deliveries = deliveries
        self._is_stopped = not rng.chance(PERCENT)
        self._pause_us = rng.choice((200_000, 1_000_000))

    def start(self) -> None:
        if not self._is_stopped:
            self._cluster.world.after(self._rng.between(1_000, self._pause_us), self._work)

    def _work(self) -> None:
        found = self._targets()
        if self._is_stopped or not found:
            self.start()
            return
        partition, leader, follower = self._rng.choice(found)
        connection = Connection(self._cluster, leader)
        if self._rng.chance(50):
            self._claim(connection, follower)

        def answered(answer: Any | None) -> None:
            connection.close()
            if answer is not None and answer.error_code != ErrorCode.cluster_authorization_failed:
                raise Violation(
                    f"broker {leader} answered the fetch of a client that passes for broker {follower.node_id}, with"
                    f" {ErrorCode(answer.error_code).name}"
                )
            self._deliveries.count("impostors without an answer" if answer is None else "impostors refused")
            self.start()

        connection.send(FETCH, FETCH_VERSION, _fetch_fields(partition, follower), answered)

    def _claim(self, connection: Connection, follower: IsrMember) -> None:
        """Claim a broker's identity, and send random bytes as proof."""
        boot_id = self._cluster.store.state.brokers[follower.node_id]["boot_id"]
        incarnation = Incarnation(follower.node_id, follower.broker_epoch, boot_id)
        hello = Hello(incarnation, self._rng.secret_bytes(NONCE_BYTES)).encode()
        connection.send(HANDSHAKE, HANDSHAKE_VERSION, {"mechanism": MECHANISM}, lambda _answer: None)
        for said in (hello, self._rng.secret_bytes(PROOF_BYTES)):
            connection.send(AUTHENTICATE, AUTHENTICATE_VERSION, {"auth_bytes": said}, lambda _answer: None)

    def _targets(self) -> list[tuple[Partition, int, IsrMember]]:
        """Partitions, their leaders, and members of the ISR to pose as."""
        found = []
        state = self._cluster.store.state
        for node in self._cluster.nodes:
            for partition in () if node.broker is None else node.broker.partitions.values():
                row = state.partitions.get((str(partition.topic_id), partition.topic_partition.partition))
                if row is None or row["leader"] != node.node_id or not partition.is_leader or partition.log is None:
                    continue
                found += [
                    (partition, node.node_id, member)
                    for member in parse_isr(row["isr"])
                    if member.node_id != node.node_id and member.node_id in state.brokers
                ]
        return found


def _fetch_fields(partition: Partition, follower: IsrMember) -> dict[str, Any]:
    log = partition.log
    assert log is not None
    wanted = {
        "partition": partition.topic_partition.partition,
        "current_leader_epoch": partition.leader_epoch,
        "fetch_offset": log.log_end_offset,
        "last_fetched_epoch": log.epochs.latest,
        "log_start_offset": log.log_start_offset,
        "partition_max_bytes": 1 << 20,
    }
    return {
        "cluster_id": None,
        "replica_state": {"replica_id": follower.node_id, "replica_epoch": follower.broker_epoch},
        "max_wait": dt.timedelta(0),
        "min_bytes": 0,
        "topics": [{"topic_id": partition.topic_id, "partitions": [wanted]}],
        "forgotten_topics_data": [],
    }
