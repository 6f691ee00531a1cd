"""The replica fetchers of this broker, one for each leader (Kafka's ReplicaFetcherManager).

A fetcher starts once this broker's registration is in the image, also while the broker is fenced. It continues while
the metadata store is down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from yak.cluster.broker_lifecycle import BrokerLifecycle
from yak.core.context import Context
from yak.core.peers import Peers
from yak.ids import BrokerEpoch, NodeId, TopicPartition
from yak.replication.follower_logs import FollowerLogs
from yak.replication.partition import Partition
from yak.replication.replica_fetcher import ReplicaFetcher
from yak.replication.throttle import Throttle
from yak.replication.truncation import Truncations

PARTITIONS_A_FETCH = 60
"""Partitions that a follower names in one fetch, and that a leader answers in one: about 3 ms of work for each end."""


class ReplicaFetchers:
    """Which fetcher follows which partition."""

    def __init__(
        self,
        context: Context,
        lifecycle: BrokerLifecycle,
        partitions: Mapping[TopicPartition, Partition],
        peers: Peers,
        logs: FollowerLogs,
        truncations: Truncations,
    ) -> None:
        self._context, self._lifecycle = context, lifecycle
        self._node_id = lifecycle.identity.node_id
        self._partitions, self._peers = partitions, peers
        self._logs, self._truncations = logs, truncations
        self._throttle = Throttle(context, self._node_id, "follower.replication.throttled.rate")
        self._fetchers: dict[NodeId, ReplicaFetcher] = {}
        self._sources: dict[Partition, NodeId] = {}
        self._changed: dict[Partition, None] = {}
        self._unassigned: dict[Partition, None] = {}
        """Partitions that wait for a fetcher of a new broker epoch: all of this broker's."""
        self._epoch: BrokerEpoch = 0
        """The broker epoch of the fetchers; 0 while the registration is not in the image."""
        self._is_stopped = False
        self.partitions_a_fetch = PARTITIONS_A_FETCH
        """The simulator lowers it, because its brokers have few partitions."""

    def changed(self, partition: Partition) -> None:
        """The leader, epoch, log or assignment of a partition changed; handled at the end of the turn."""
        self._changed[partition] = None

    def brokers_changed(self, changed: Iterable[NodeId]) -> None:
        """Restart the fetchers in a new broker epoch, and retry leaders whose registration changed."""
        own = self._context.image.brokers.get(self._node_id)
        epoch = 0 if own is None else own.broker_epoch
        if epoch == self._lifecycle.broker_epoch != self._epoch:
            self._epoch = epoch
            for fetcher in self._fetchers.values():
                fetcher.restart()
            self._unassigned |= dict.fromkeys(self._partitions.values())
        for node_id in changed:
            if node_id in self._fetchers:
                self._fetchers[node_id].hurry()

    def configs_changed(self) -> None:
        """Apply a new throttle rate and new lists of throttled replicas."""
        self._throttle.update_rate()
        for fetcher in self._fetchers.values():
            fetcher.hurry()

    def flushed(self, partition: Partition) -> None:
        """A flush of a followed partition is done."""
        source = self._sources.get(partition)
        if source is not None:
            self._fetchers[source].flushed(partition)

    def stop(self) -> None:
        """Stop all fetchers: the logs are being closed."""
        self._is_stopped = True
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._sources.clear()

    def run(self) -> None:
        """At the end of the turn, assign changed partitions to fetchers, and some of those without one."""
        if not (self._changed or self._unassigned) or self._is_stopped:
            return
        if not self._epoch:
            # the first broker epoch assigns all partitions
            self._changed.clear()
            return
        changed, self._changed = self._changed, {}
        for partition in list(islice(self._unassigned, self.partitions_a_fetch)):
            del self._unassigned[partition]
            changed[partition] = None
        if self._unassigned:
            # Each turn ends here, also that of a timer.
            self._context.within((self, "rest"), 1, lambda: None)
        touched: dict[NodeId, None] = {}
        for partition in changed:
            self._assign(partition, touched)
        for node_id in touched:
            fetcher = self._fetchers[node_id]
            if fetcher.partitions:
                fetcher.send_due()
            else:
                fetcher.close()
                del self._fetchers[node_id]

    def _assign(self, partition: Partition, touched: dict[NodeId, None]) -> None:
        wanted, present = self._source_of(partition), self._sources.get(partition)
        if present is not None and present != wanted:
            self._fetchers[present].unfollow(partition)
            del self._sources[partition]
            touched[present] = None
        if wanted is not None:
            fetcher = self._fetchers.get(wanted)
            if fetcher is None:
                fetcher = self._fetchers[wanted] = ReplicaFetcher(
                    self._context,
                    wanted,
                    self._lifecycle,
                    self._peers,
                    self._logs,
                    self._truncations,
                    self._throttle,
                    partitions_a_fetch=self.partitions_a_fetch,
                )
            self._sources[partition] = wanted
            fetcher.follow(partition)
            touched[wanted] = None

    def _source_of(self, partition: Partition) -> NodeId | None:
        """The leader to fetch from; None when there is nothing to fetch."""
        is_ours = self._partitions.get(partition.topic_partition) is partition
        if not self._epoch or not is_ours or partition.log is None or partition.is_leader:
            return None
        leader, faults = partition.leader_id, self._context.faults
        if faults and faults.stops_fetches(*partition.topic_partition, self._node_id):
            return None
        return leader if leader >= 0 and leader != self._node_id and self._node_id in partition.replicas else None

    def is_naming(self, partition: Partition) -> bool:
        """Whether a fetch that names the partition has no answer yet."""
        source = self._sources.get(partition)
        return source is not None and self._fetchers[source].is_naming(partition)
