"""Topic creation, as shared by CreateTopics, auto-creation, and the first use of a group or transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from yak.broker.delayed_metadata_changes import DelayedMetadataChanges
from yak.cluster.placement import count_machines
from yak.cluster.topic_changes import NewTopic, TopicPlan, plan_create_partitions, plan_create_topic
from yak.config.topic_configs import check_topic_configs, validate_topic_config
from yak.errors import ErrorCode, PeerError
from yak.groups.offsets import OFFSETS_TOPIC
from yak.ids import NodeId
from yak.limits import PARTITIONS_PER_REQUEST_MAX
from yak.ports.metadata_store import StoreRequest
from yak.transactions.records import TRANSACTION_TOPIC

if TYPE_CHECKING:
    from yak.broker.broker import Broker

DEFAULT_LOG = "yak"
"""The default topic of clients that name none. It has a single partition, so that its records have one order."""
_TRANSACTION_MIN_ISR: Final = "transaction.state.log.min.isr"


def too_many_partitions(new_partitions: Iterable[int]) -> PeerError | None:
    """The error (POLICY_VIOLATION) of a request that creates too many partitions in total.

    Kafka's ReplicationControlManager.validateTotalNumberOfPartitions, with its message.
    """
    if sum(new_partitions) <= PARTITIONS_PER_REQUEST_MAX:
        return None
    message = (
        f"Excessively large number of partitions per request. At most {PARTITIONS_PER_REQUEST_MAX} are created at once."
    )
    return PeerError(ErrorCode.policy_violation, message)


def named_twice(names: Iterable[str]) -> frozenset[str]:
    """The names that occur more than once in a request."""
    return frozenset(name for name, count in Counter(names).items() if count > 1)


class TopicCreation:
    """Plans topics and partitions, and sends their plans."""

    def __init__(self, broker: Broker) -> None:
        self._broker, self._context, self._rng = broker, broker.context, broker.rng

    def replication_factor(self, new: NewTopic) -> int:
        """The replication factor that a topic requests, or the default."""
        if new.assignments:
            return max(len(replicas) for replicas in new.assignments.values())
        default = self._context.config.default_replication_factor
        return default if new.replication_factor == -1 else new.replication_factor

    def plan(self, new: NewTopic, full: Collection[NodeId]) -> TopicPlan:
        """Plan a requested topic, checked against the image, with no replica on the brokers in `full` (`full_brokers`).

        Raises PeerError.
        """
        config = self._context.config
        self._broker.expected_followers.check(self.replication_factor(new))
        try:
            plan = plan_create_topic(
                self._context.image,
                new,
                self._rng.uuid4(),
                num_partitions=config.num_partitions,
                default_replication_factor=config.default_replication_factor,
                validate_config=validate_topic_config,
                full=full,
            )
        except PeerError as error:
            raise self._broker.expected_followers.explain(error) from None
        check_topic_configs(plan.configs, *self._broker.config_levels)
        self._broker.replica_bound.check(plan.requests)
        return plan

    def plan_growth(
        self, name: str, total: int, assignments: Sequence[Sequence[NodeId]] | None, full: Collection[NodeId]
    ) -> Sequence[StoreRequest]:
        """The requests that add partitions to a topic. Raises PeerError."""
        growth_id = self._rng.uuid4()
        requests = plan_create_partitions(self._context.image, name, total, assignments, growth_id=growth_id, full=full)
        self._broker.replica_bound.check(requests)
        return requests

    def send(self, waiting: DelayedMetadataChanges[Any], name: str, requests: Sequence[StoreRequest]) -> None:
        """Send the requests that create a topic or partitions, and count their replicas; a refusal is the result."""
        if waiting.change(name, requests):
            self._broker.replica_bound.count(requests)

    def plan_automatic(self, name: str) -> Sequence[StoreRequest]:
        """The requests that create a topic which a client only named. Raises PeerError."""
        if name in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
            return self.plan_internal_topic(name)
        new = NewTopic(name, num_partitions=1 if name == DEFAULT_LOG else -1)
        return self.plan(new, self._broker.full_brokers()).requests

    def plan_internal_topic(self, name: str) -> Sequence[StoreRequest]:
        """The requests that create `__consumer_offsets` or `__transaction_state`, with its configs.

        Raises PeerError, also while expected followers are missing. If its replication factor is not set, a smaller
        cluster gets fewer replicas, so that a single broker serves groups and transactions. The factor is then at least
        the number of machines of registered brokers, down ones included, and `default.replication.factor`: a broker that
        is briefly down, or starts later, costs no replica for good.
        """
        config, image = self._context.config, self._context.image
        if name == OFFSETS_TOPIC:
            wanted, partitions = config.offsets_topic_replication_factor, config.offsets_topic_num_partitions
            segment_bytes, setting = config.offsets_topic_segment_bytes, "offsets.topic.replication.factor"
        else:
            wanted = config.transaction_state_log_replication_factor
            partitions = config.transaction_state_log_num_partitions
            segment_bytes = config.transaction_state_log_segment_bytes
            setting = "transaction.state.log.replication.factor"
        replication_factor = wanted
        if setting not in config.static:
            replication_factor = min(
                wanted, max(count_machines(image.brokers.values()), config.default_replication_factor)
            )
        replication_factor = max(1, replication_factor)
        configs = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": str(segment_bytes)}
        if name == TRANSACTION_TOPIC:
            # TransactionStateManager.transactionTopicConfigs
            configs["compression.type"] = "uncompressed"
            configs["unclean.leader.election.enable"] = "false"
            min_isr = config.transaction_state_log_min_isr
            if _TRANSACTION_MIN_ISR not in config.static:
                min_isr = min(min_isr, replication_factor)
            configs["min.insync.replicas"] = str(min_isr)
        self._broker.expected_followers.check(wanted)
        return plan_create_topic(
            image,
            NewTopic(name, num_partitions=partitions, replication_factor=replication_factor, configs=configs),
            self._rng.uuid4(),
            full=self._broker.full_brokers(),
        ).requests
