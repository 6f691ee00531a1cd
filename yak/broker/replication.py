"""Both sides of replication: the fetchers of this broker, and the sessions of its followers.

A fetcher starts once this broker's registration is in the image, also while the broker is fenced. It continues while
the metadata store is away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.fetch_reads import FollowerReader
from yak.broker.fetch_sessions import FollowerSessions
from yak.cluster.image import Delta
from yak.config.broker_configs import dynamic_value
from yak.ids import BrokerEpoch, NodeId
from yak.replication.follower_logs import FollowerLogs
from yak.replication.partition import Partition
from yak.replication.replica_fetcher import ReplicaFetcher
from yak.replication.throttle import Throttle
from yak.replication.truncation import Truncations

if TYPE_CHECKING:
    from yak.broker.broker import Broker


PARTITIONS_A_FETCH = 100
"""Partitions that a follower names in one fetch, and that a leader answers in one: about 3 ms of work for each end."""


class Replication:
    """Both sides of replication in one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.follower_sessions = FollowerSessions(broker)
        self.follower_reader = FollowerReader(broker, self.follower_sessions.throttle)
        self.truncations = Truncations(
            broker.context, broker.log_store, broker.offline_replicas, broker.flusher.want, self.changed
        )
        self._follower_logs = FollowerLogs(
            broker.context,
            broker.flusher,
            broker.offline_replicas,
            broker.partition_changed,
            broker.advanced,
            broker.counters.replicated,
        )
        self._throttle = Throttle(broker.config.follower_replication_throttled_rate)
        self._fetchers: dict[NodeId, ReplicaFetcher] = {}
        self._sources: dict[Partition, NodeId] = {}
        self._changed: dict[Partition, None] = {}
        self._epoch: BrokerEpoch = 0
        """The broker epoch of the fetchers; 0 while the registration is not in the image."""
        self._is_stopped = False
        self.partitions_a_fetch = PARTITIONS_A_FETCH
        """The simulator lowers it, because its brokers have few partitions."""

    def changed(self, partition: Partition) -> None:
        """The leader, epoch, log or assignment of a partition changed; handled at the end of the turn."""
        self._changed[partition] = None
        self.follower_sessions.changed(partition)

    def image_changed(self, delta: Delta) -> None:
        """Restart the fetchers in a new broker epoch, and retry leaders whose registration changed."""
        broker = self._broker
        if not delta.brokers_changed:
            return
        own = broker.image.brokers.get(broker.node_id)
        epoch = 0 if own is None else own.broker_epoch
        if epoch == broker.metadata.lifecycle.broker_epoch != self._epoch:
            self._epoch = epoch
            for fetcher in self._fetchers.values():
                fetcher.restart()
            self._changed |= dict.fromkeys(broker.partitions.values())
        for node_id in delta.brokers_changed:
            if node_id in self._fetchers:
                self._fetchers[node_id].hurry()
        broker.isr_changes.brokers_changed()

    def configs_changed(self) -> None:
        """Apply new throttle rates and lists of throttled replicas."""
        self.follower_sessions.throttle.rate = self._rate("leader.replication.throttled.rate")
        self._throttle.rate = self._rate("follower.replication.throttled.rate")
        for fetcher in self._fetchers.values():
            fetcher.hurry()

    def _rate(self, name: str) -> int:
        broker = self._broker
        image, static = broker.image, broker.config.static
        rate = dynamic_value(name, image.broker_configs.get(broker.node_id, {}), image.default_broker_configs, static)
        assert isinstance(rate, int)
        return rate

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
        """At the end of the turn, assign changed partitions to fetchers, and answer followers."""
        if self._changed and not self._is_stopped:
            changed, self._changed = self._changed, {}
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
        self.follower_sessions.wake()
        if not self._broker.maintenance.is_closing:
            self.truncations.start_wanted()

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
                    self._broker.context,
                    wanted,
                    self._broker.metadata.lifecycle,
                    self._broker.peers,
                    self._follower_logs,
                    self.truncations,
                    self._throttle,
                    partitions_a_fetch=self.partitions_a_fetch,
                )
            self._sources[partition] = wanted
            fetcher.follow(partition)
            touched[wanted] = None

    def _source_of(self, partition: Partition) -> NodeId | None:
        """The leader to fetch from; None when there is nothing to fetch."""
        broker = self._broker
        is_ours = broker.partitions.get(partition.topic_partition) is partition
        if not self._epoch or not is_ours or partition.log is None or partition.is_leader:
            return None
        leader = partition.leader_id
        return leader if leader >= 0 and leader != broker.node_id and broker.node_id in partition.replicas else None

    def is_naming(self, partition: Partition) -> bool:
        """Whether a fetch that names the partition has no answer yet."""
        source = self._sources.get(partition)
        return source is not None and self._fetchers[source].is_naming(partition)
