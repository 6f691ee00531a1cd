"""A replica that knows that its log is damaged, by a read or by recovery, leaves the ISR, and rejoins it only with a copy
of another log.

If a damaged leader stays, consumers read the damaged batch again and again. A damaged log that is back in the ISR shows
only once its replica is elected and a client reads that batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import parse_isr
from yak.ids import NodeId
from yak.replication.damaged_replicas import recovery_damage
from yak.sim.cluster_damage import is_damaged
from yak.sim.deliveries import Violation
from yak.sim.history import Copy, Key, Watcher, key_of

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.replication.damaged_replicas import Damage
    from yak.replication.partition import Partition
    from yak.sim.cluster import Cluster
    from yak.sim.history import Chain
    from yak.sim.node import SimNode
    from yak.storage.log import Log
    from yak.storage.reader import DamagedBatch

PATIENCE_MS = 4_000
"""A broker retries a refused request after two seconds, and waits for the response to its last fetch first."""
LONGEST_GAP_MS = 1_500
"""A running broker steps more often than this."""


@dataclass(slots=True)
class _Known:
    """A damaged batch that a broker knows of. `waited_ms` counts the time in which the broker could have resigned."""

    damage: Damage | DamagedBatch
    seen_ms: int
    waited_ms: int = 0


class DamagedReplicasResign(Watcher):
    """Compares the damage that each broker knows of with the replicas that leave the ISR."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[tuple[int, Key], _Known] = {}
        self._left: dict[tuple[int, Key], Log] = {}
        """The log with which a broker left an ISR because of damage."""
        self._recovered: set[NodeId] = set()
        """Brokers that ever found damage at a start."""

    def reopened(self, copy: Copy, before: Chain) -> None:
        super().reopened(copy, before)
        if recovery_damage(copy.log) is not None:
            self._recovered.add(copy.node.node_id)

    def stepped(self, node: SimNode) -> None:
        broker = node.broker
        if broker is None or not (len(broker.damaged_replicas) or node.node_id in self._recovered):
            return
        for partition in broker.partitions.values():
            found = broker.damaged_replicas.of(partition)
            damage = found or recovery_damage(partition.log)
            if damage is not None:
                if found is not None and found.is_leaving and broker.replica_fetchers.is_naming(partition):
                    raise Violation(
                        f"broker {node.node_id} requested to leave the ISR of {partition.topic_partition}, and fetches it"
                        " before the answer: its leader may bring the damaged log back"
                    )
                self._wait(node, key_of(partition), partition, damage)

    def _wait(self, node: SimNode, key: Key, partition: Partition, damage: Damage | DamagedBatch) -> None:
        now_ms = self._cluster.world.now_ms
        known = self._known.get((node.node_id, key))
        if known is None or known.damage is not damage or now_ms - known.seen_ms > LONGEST_GAP_MS:
            known = self._known[node.node_id, key] = _Known(damage, now_ms)
        known.waited_ms = known.waited_ms + now_ms - known.seen_ms if self._may_leave(node, key) else 0
        known.seen_ms = now_ms
        if known.waited_ms > PATIENCE_MS:
            raise Violation(
                f"broker {node.node_id} has known for {known.waited_ms} ms of a damaged batch of {partition.topic_partition}, and"
                " did not leave the ISR, though another replica is in it"
            )

    def _may_leave(self, node: SimNode, key: Key) -> bool:
        """Whether another replica can take over, and the broker can reach the store."""
        row = self._cluster.store.state.partitions.get(key)
        if row is None or key in self._cluster.history.forfeited:
            return False
        members = [member.node_id for member in parse_isr(row["isr"])]
        others = [self._cluster.node(each) for each in members if each != node.node_id]
        line = node.store_line
        return (
            node.node_id in members
            and any(other.is_ready and not other.is_paused for other in others)
            and not any(map(self._cluster.history.has_lost, parse_isr(row["isr"])))
            and self._cluster.store.up
            and line.reaches()
            and not line.break_percent
            and not line.slow_us
        )

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:
        """Replicas may have left an ISR, or rejoined it."""
        if request.script == "leave_isr" and outcome.code == "OK":
            arguments: dict[str, Any] = request.arguments
            for item in arguments["partitions"]:
                self._leaves(arguments["node_id"], item)
        for (node_id, key), log in list(self._left.items()):
            row = self._cluster.store.state.partitions.get(key)
            copy = self._cluster.history.copies.get(key, {}).get(node_id)
            if row is None or copy is None or copy.log is not log or not copy.is_held:
                del self._left[node_id, key]
            elif any(member.node_id == node_id for member in parse_isr(row["isr"])) and is_damaged(copy):
                raise Violation(
                    f"broker {node_id} left the ISR of {copy.topic_partition} because its log is damaged, and is in it again"
                    " with the same log"
                )

    def _leaves(self, node_id: int, item: dict[str, Any]) -> None:
        key = Key(item["topic_id"], item["partition"])
        copy = self._cluster.history.copies.get(key, {}).get(node_id)
        # an earlier request that is executed again says nothing of the copy that has replaced the log
        if copy is not None and copy.log is not None and item["lost"] and self._knows_damage(copy):
            self._left[node_id, key] = copy.log

    def _knows_damage(self, copy: Copy) -> bool:
        broker = copy.node.broker
        if broker is None:
            return False
        partition = broker.partitions.get(copy.topic_partition)
        return partition is not None and broker.damaged_replicas.of(partition) is not None
