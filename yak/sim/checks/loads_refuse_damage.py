"""A coordinator completes no load of a log with a damaged batch, if that batch's checksum shows the damage.

A client sees a lost commit only if the damage changed an offset that a group requests. This check does not depend on
that: the simulator knows which bytes on a disk are wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.sim.cluster_damage import WrongCrc, wrong_crcs
from yak.sim.deliveries import Violation
from yak.sim.history import History, Watcher, coordinated_groups, key_of

if TYPE_CHECKING:
    from yak.coordination.group_coordinator import GroupsPartition
    from yak.sim.node import SimNode


class LoadsRefuseDamage(Watcher):
    """Reads the log when a load begins, and again when it has ended."""

    of_coordinators = True

    def __init__(self, history: History) -> None:
        self._history = history
        self._loading: dict[tuple[int, int], tuple[GroupsPartition, list[WrongCrc]]] = {}

    def stepped(self, node: SimNode) -> None:
        """Loads may have begun, or ended, on this broker."""
        for index, coordinated in coordinated_groups(node):
            known = self._loading.get((node.node_id, index))
            if known is None or known[0] is not coordinated:
                if not coordinated.is_loading:
                    continue
                known = self._loading[node.node_id, index] = coordinated, self._damage(node, coordinated)
                self._history.counts["loads of damaged logs"] += bool(known[1])
            if not coordinated.is_loading and known[1]:
                self._loading[node.node_id, index] = coordinated, []
                self._check(node, coordinated, known[1])

    def _damage(self, node: SimNode, coordinated: GroupsPartition) -> list[WrongCrc]:
        """The damaged batches that a load now reads."""
        partition = coordinated.partition
        copy = self._history.copies[key_of(partition)][node.node_id]
        log = partition.log
        if log is None:
            return []
        return [
            each
            for each in wrong_crcs(copy)
            if each.header.next_offset > log.log_start_offset and each.header.base_offset < log.log_end_offset
        ]

    def _check(self, node: SimNode, coordinated: GroupsPartition, found: list[WrongCrc]) -> None:
        """Raise Violation for a batch that was damaged throughout; compaction or truncation may have removed others."""
        still = self._damage(node, coordinated)
        for each in found:
            if each in still:
                raise Violation(
                    f"broker {node.node_id} completed the load of {coordinated.partition.topic_partition}, though the checksum of the"
                    f" batch at offset {each.header.base_offset} does not match its bytes"
                )
