"""ISR changes: leaders propose them to the metadata store in batches, and apply the answers.

A proposal counts (for the maximal ISR) from when it is sent until it has a definite answer and the image includes that
answer. Without a definite answer the same proposal, with the same nonce, is sent again (reliability rules 4.6; Kafka's
Partition.handleAlterPartitionError). A new leader epoch ends it.

There is no periodic scan of all partitions for lagging followers: a partition is watched from the append that left a follower
behind until all followers have caught up.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import IsrMember, format_isr
from yak.cluster.records import BrokerState
from yak.errors import PeerError
from yak.ids import BrokerEpoch, NodeId
from yak.replication.isr import IsrProposal, wanted_isr
from yak.replication.partition import Partition
from yak.seams.metadata_store import StoreRequest

if TYPE_CHECKING:
    from yak.broker.broker import Broker

BATCH_MAX = 200
RETRY_MS = 200
_LOOKS_PER_LAG = 2


class IsrChanges:
    """The proposals of all partitions that this broker leads."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._nonce = 0
        self._lag_max_ms = broker.config.replica_lag_time_max_ms
        self._wanted: dict[Partition, None] = {}
        self._unsent: list[tuple[Partition, IsrProposal]] = []
        """Proposals without a definite answer, or not sent because the store was away."""
        self._watched: dict[Partition, None] = {}
        self._later: dict[Partition, None] = {}

    # ----------------------------------------------------------------------------------------------------- choosing

    def look(self, partition: Partition) -> None:
        """Check at the end of the turn whether the ISR should change."""
        self._wanted[partition] = None

    def watch(self, partition: Partition) -> None:
        """Watch a partition after an append: followers that were caught up have `replica.lag.time.max.ms` from now."""
        partition.is_watched = True
        now_ms = self._broker.now_ms
        for replica in partition.replica_states.values():
            if replica.log_end_offset >= replica.last_fetch_end_offset >= 0:
                replica.last_caught_up_ms = now_ms
        self._watched[partition] = None
        self._watch_soon()

    def _watch_soon(self) -> None:
        due_ms = self._broker.now_ms + self._lag_max_ms // _LOOKS_PER_LAG
        self._broker.timers.arm_at_the_latest((self, "watch"), due_ms, self._look_at_watched)

    def brokers_changed(self) -> None:
        """Brokers registered, left or restarted: check the ISR of every replicated partition that this broker leads."""
        for partition in self._broker.partitions.values():
            if partition.is_leader and len(partition.replicas) > 1:
                self._wanted[partition] = None

    def _retry(self) -> None:
        """Send unanswered proposals again."""
        unsent, self._unsent = self._unsent, []
        self._send([(partition, proposal) for partition, proposal in unsent if partition.pending_isr is proposal])
        later, self._later = self._later, {}
        self._wanted |= later

    def _look_at_watched(self) -> None:
        """Check the watched partitions for lagging followers."""
        broker = self._broker
        watched, self._watched = self._watched, {}
        for partition in watched:
            log = partition.log
            if (
                not partition.is_leader
                or log is None
                or broker.partitions.get(partition.topic_partition) is not partition
                or all(state.log_end_offset >= log.log_end_offset for state in partition.replica_states.values())
            ):
                partition.is_watched = False
            else:
                self._watched[partition] = None
                self._wanted[partition] = None
        if self._watched:
            self._watch_soon()

    # --------------------------------------------------------------------------------------------------- sending

    def run(self) -> None:
        """Propose the ISR changes of one batch of partitions, at the end of a turn or of due timers."""
        if not self._wanted:
            return
        broker = self._broker
        wanted = list(islice(self._wanted, BATCH_MAX))
        for partition in wanted:
            del self._wanted[partition]
        if self._wanted:
            broker.timers.arm_at_the_latest((self, "rest"), broker.now_ms + 1, self.run)
        own_epoch = broker.metadata.lifecycle.broker_epoch
        proposals = []
        for partition in wanted:
            if broker.partitions.get(partition.topic_partition) is not partition:
                continue
            members = wanted_isr(partition, self._epoch_of, own_epoch, broker.now_ms, self._lag_max_ms)
            if members is None:
                continue
            if broker.metadata.lifecycle.refusal() is not None:
                self._again(partition)
                continue
            self._nonce += 1
            nonce = f"{broker.node_id}.{own_epoch}.{self._nonce}"
            proposal = IsrProposal(members, partition.partition_epoch, partition.effective_min_isr, nonce)
            committed = dict(partition.isr_members)
            proposal.expands = any(committed.get(node_id) != epoch for node_id, epoch in members)
            proposal.shrinks = any(node_id not in dict(members) for node_id in committed)
            partition.propose(proposal)
            proposals.append((partition, proposal))
        self._send(proposals)

    def _epoch_of(self, node_id: NodeId) -> BrokerEpoch:
        broker = self._broker.image.brokers.get(node_id)
        return broker.broker_epoch if broker is not None and broker.state is BrokerState.ACTIVE else -1

    def _again(self, partition: Partition) -> None:
        self._later[partition] = None
        self._wake_for_retry()

    def _wake_for_retry(self) -> None:
        self._broker.timers.arm_at_the_latest((self, "retry"), self._broker.now_ms + RETRY_MS, self._retry)

    def _send(self, proposals: list[tuple[Partition, IsrProposal]]) -> None:
        for start in range(0, len(proposals), BATCH_MAX):
            batch = proposals[start : start + BATCH_MAX]
            request = StoreRequest("alter_isr", {"partitions": [_arguments(*item) for item in batch]})
            try:
                self._broker.metadata.begin_own((request,), partial(self._answered, batch))
            except PeerError:
                self._unsent += batch
                self._wake_for_retry()

    def _answered(
        self, batch: list[tuple[Partition, IsrProposal]], error: PeerError | None, values: tuple[dict[str, Any], ...]
    ) -> None:
        """Apply the store's answer, which the image includes; after an error the outcome is unknown, so retry."""
        if error is not None:
            self._unsent += batch
            self._wake_for_retry()
            return
        for (partition, proposal), result in zip(batch, values[0]["results"], strict=True):
            if partition.pending_isr is not proposal:
                continue
            partition.settle(proposal)
            self._tell(partition, proposal, str(result["code"]))
            if partition.is_leader and partition.log is not None and partition.advance_high_watermark():
                self._broker.advanced(partition)
            if result["code"] == "INELIGIBLE_REPLICA":
                # the store knows of a change of that broker which this image does not have yet
                self._again(partition)
            elif result["code"] != "HELD":
                # a quarantined partition cannot change until the restore releases it, which the image shows
                self.look(partition)

    def _tell(self, partition: Partition, proposal: IsrProposal, code: str) -> None:
        nodes = ",".join(str(node_id) for node_id, _epoch in proposal.members)
        fields: dict[str, object] = {"partition": str(partition.topic_partition), "isr": nodes}
        counters = self._broker.counters
        if code == "OK":
            counters.isr_shrinks += proposal.shrinks
            counters.isr_expands += proposal.expands
            self._broker.notice("info", "isr-changed", **fields, partition_epoch=partition.partition_epoch)
        else:
            counters.isr_refused += 1
            self._broker.notice("info", "isr-change-refused", **fields, code=code)


def _arguments(partition: Partition, proposal: IsrProposal) -> dict[str, object]:
    return {
        "topic_id": str(partition.topic_id),
        "partition": partition.topic_partition.partition,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": proposal.partition_epoch,
        "isr": format_isr(tuple(IsrMember(*member) for member in proposal.members)),
        "min_isr": proposal.min_isr,
        "nonce": proposal.nonce,
    }
