"""The broker: a plain object whose `step(event, now_ms)` changes state, appends, and returns effects.

The core has no clock, socket, thread or await: the shell (`yak.server`) and the simulator (`yak.sim`) drive the same object.
An unexpected exception in `Broker.serve` closes one connection; anywhere else it stops the broker (`yak.fail_stop`). This
file dispatches events and keeps each connection's requests in order. `yak.broker.apis` handles requests,
`yak.lifecycle.metadata` follows the cluster's metadata, `yak.partitions.maintenance` does periodic work.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from yak.broker.api_table import Handler
from yak.broker.audit import Audit
from yak.broker.authorization import Authorization
from yak.broker.call import Call, DelayedOperation, Encoded, Fields, Later, Now, Outcome, Slices
from yak.broker.connections import Connection, HeldAnswers
from yak.broker.controlled_shutdown import ControlledShutdown
from yak.broker.controller_requests import ControllerRequests
from yak.broker.counters import Counters
from yak.broker.delayed_leader_requests import LeaderRequests
from yak.broker.fault_injection import FaultInjection
from yak.broker.fetches import Fetches
from yak.broker.kafka_release import KafkaRelease
from yak.broker.large_requests import LargeRequests
from yak.broker.listener_configs import ListenerConfigs
from yak.broker.login import Logins, token_verifiers
from yak.broker.parts import Parts
from yak.broker.purgatory import Answer, Purgatory
from yak.broker.quorum_node import SERVED_EARLY, QuorumNode
from yak.broker.throttling import Throttling
from yak.broker.topic_creation import TopicCreation
from yak.cluster.broker_lifecycle import BrokerLifecycle
from yak.cluster.image import Delta, Image
from yak.cluster.image_log import ImageLog
from yak.cluster.registration import Identity
from yak.coordination.coordinator_partitions import CoordinatorPartitions
from yak.coordination.group_coordinator import GroupCoordinator
from yak.coordination.producer_ids import ProducerIds
from yak.coordination.transaction_coordinator import TransactionCoordinator
from yak.coordination.verification import Verification
from yak.core import events
from yak.core.context import Clock, Context
from yak.core.jobs import Jobs
from yak.core.peers import Peers
from yak.core.timers import Timers
from yak.errors import ErrorCode, FailStop, ProtocolViolation, TooManyElements
from yak.fail_stop import raise_if_state_changed
from yak.ids import BrokerEpoch, ConnectionId, NodeId, TopicPartition
from yak.lifecycle.broker_listeners import BrokerListeners
from yak.lifecycle.expected_followers import ExpectedFollowers
from yak.lifecycle.failure_watch import FailureWatch, SuspectedBrokers
from yak.lifecycle.liveness import RecentlyFenced
from yak.lifecycle.metadata import Metadata, ShellStore
from yak.limits import (
    BROKER_REQUEST_ELEMENTS_MAX,
    LARGE_REQUEST_BYTES_MAX,
    LARGE_REQUEST_ELEMENTS,
    REQUEST_ELEMENTS_MAX,
    REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX,
    UNSENT_REPLY_BYTES_MAX,
)
from yak.partitions.leader_appends import LeaderAppends, Leadership, TransactionalAppends
from yak.partitions.local_replicas import LocalReplicas
from yak.partitions.log_cleaner import LogCleaner
from yak.partitions.log_moves import LogMoves
from yak.partitions.maintenance import Maintenance
from yak.partitions.metadata_loader import MetadataLoader
from yak.partitions.moved_high_watermarks import MovedHighWatermarks
from yak.partitions.offline_replicas import OfflineReplicas
from yak.partitions.record_deletions import RecordDeletions
from yak.partitions.store_outage import StoreOutage
from yak.partitions.transaction_markers import TransactionMarkers
from yak.ports.disk import Part
from yak.ports.metadata_store import MetadataStore, TailedRecord
from yak.protocol.codec import decode_request, encode_response
from yak.protocol.pace import at_once
from yak.protocol.peer_proof import ClusterSecret, Incarnation
from yak.protocol.repeated_produce import RepeatedProduce
from yak.protocol.request_header import RequestHeader, read_request_header
from yak.protocol.versions import PRODUCE
from yak.replication.damaged_replicas import DamagedReplicas
from yak.replication.fetch_sessions import ConsumerSessions, FollowerSessions
from yak.replication.flusher import Flusher
from yak.replication.follower_logs import FollowerLogs
from yak.replication.isr import IsrChanges
from yak.replication.log_failures import LogFailures
from yak.replication.partition import Partition
from yak.replication.partition_events import PartitionEvent, PartitionListener
from yak.replication.replica_bound import ReplicaBound
from yak.replication.replica_fetchers import ReplicaFetchers
from yak.replication.truncation import Truncations
from yak.transactions.marker_sender import MarkerSender

if TYPE_CHECKING:
    from yak.broker.delegation_tokens import DelegationTokens

API_VERSIONS_KEY = 18
S = TypeVar("S", bound="memoryview | DelayedOperation")
"""A request for `Broker.serve`: its frame, or its delayed operation."""
_make = tuple.__new__


class Broker:
    """One broker. `step` is its only input; the effects that `step` returns are its only output."""

    def __init__(self, parts: Parts, now_ms: int) -> None:
        self.config = parts.config
        self.identity, self.node_id = parts.identity, parts.identity.node_id
        self.rng, self.log_store, self.now_ms = parts.rng, parts.log_store, now_ms
        self.partitions: dict[TopicPartition, Partition] = {}
        self.connections: dict[ConnectionId, Connection] = {}
        self._held_answers = HeldAnswers()
        self._effects: list[events.Effect] = []
        self.counters = Counters()
        self._note_answer = self.counters.answered.append
        self.jobs, self.timers = Jobs(self.emit), Timers()
        self._clock = Clock(now_ms)
        self.context = Context(self._clock, parts.config, parts.image, self.emit, self.jobs, self.timers)
        self._make_client_parts(parts)
        self._failure: FailStop | None = None
        self.peers = self._make_peers(parts)
        self._make_listener_parts(parts.identity)
        self.quorum: QuorumNode | None = None
        self.suspected_brokers = SuspectedBrokers(self.context, self.purgatory.complete)
        self.recently_fenced = RecentlyFenced(self.context)
        self.failure_watch = FailureWatch(
            self.context, self.node_id, self.peers, self.rng, self.suspected_brokers, self._on_broker_dead
        )
        self.leader_requests = LeaderRequests(self.context, self.suspected_brokers, self.failure_watch, self.purgatory)
        self.record_deletions = RecordDeletions(self.context, self.purgatory.try_complete)
        self.replica_bound = ReplicaBound(self.context)
        self.expected_followers = ExpectedFollowers(self.context, parts.expected_followers, parts.followers_timeout_ms)
        self.topic_creation = TopicCreation(self)
        self._make_metadata(parts)
        self.producer_ids = ProducerIds(self.metadata.begin_own)
        self._make_partition_parts(parts.image_log, parts.cluster_settings.session_timeout_ms)
        self.coordinator_partitions = CoordinatorPartitions(
            self.context, self.leadership, self.leader_appends, self.log_failures, self.damaged_replicas
        )
        self.group_coordinator = GroupCoordinator(self.context, self.coordinator_partitions, parts.rng.uuid4)
        self.transaction_markers = TransactionMarkers(
            self.context,
            self.leader_appends,
            self.coordinator_partitions.when_acknowledged,
            self.group_coordinator.transaction_ended,
        )
        self.marker_sender = MarkerSender(self.context, self.peers, self.node_id, self.transaction_markers)
        self.transaction_coordinator = TransactionCoordinator(
            self.context, self.coordinator_partitions, self.producer_ids, self.marker_sender
        )
        self.controller_requests = ControllerRequests(self.context, self.peers, self.node_id, self.purgatory)
        self.verification = Verification(self.context, self.peers, self.node_id, self.transaction_coordinator)
        self.leader_appends.transactional = TransactionalAppends(
            self.context, self.verification.verify, self.leader_appends
        )
        self._listeners = self._partition_listeners()
        self.apis = parts.apis
        self._api_handlers = parts.apis.handlers
        self.as_kafka = None if parts.config.yak_as_kafka is None else KafkaRelease(parts.config.yak_as_kafka)
        self._handlers = self._handlers_by_event()
        self.takes_clients = self.quorum is None
        """Whether this broker answers clients: a node of a quorum listens before it has joined the cluster."""
        self._begin()

    def _begin(self) -> None:
        """Open the partitions of the image, and take part in the quorum."""
        self._put_configs_in_force()
        notice = self.context.notice
        self.log_store.report.on_event = lambda event: notice(event.level, event.event, **event.fields)
        self.local_replicas.open_all()
        self.offline_replicas.exits.send()
        self.listener_configs.apply()
        if self.quorum is not None:
            self.quorum.quorum.start()
            self._take_store_events()

    def _make_metadata(self, parts: Parts) -> None:
        """The parts that keep in touch with the metadata store."""
        secret = parts.secret_file.read()
        self._secret_file = parts.secret_file
        lifecycle = BrokerLifecycle(
            parts.identity,
            parts.image,
            next_nonce=count(1).__next__,
            rng=parts.rng,
            settings=parts.cluster_settings,
            secret=secret,
            hash_chain=lambda: parts.image_log.hash_chain,
        )
        self.counters.elections = lifecycle.elections
        lifecycle.heartbeats.is_full = not self.log_store.has_room()
        redis = ShellStore(self.emit) if parts.has_redis else None
        store: MetadataStore | None = redis
        if parts.quorum is not None:
            assert secret is not None, "the nodes of a quorum share a secret from the start"
            self.peers.agree_on(secret)
            self.quorum = QuorumNode(self.context, self.peers, parts.quorum, parts.rng, redis)
            store = self.quorum.store
        assert store is not None, "a broker has a metadata store"
        self.metadata = Metadata(self.context, lifecycle, store, self._on_records, self.became_ready, self._on_secret)
        self._store_handlers: dict[type, Callable[[Any], None]] = {
            events.StoreConnected: self._on_store_connected,
            events.StoreLost: self._on_store_lost,
            events.StoreReplied: self.metadata.on_store_replied,
            events.RecordsTailed: self.metadata.on_records_tailed,
        }
        self.moved_high_watermarks = MovedHighWatermarks(self.context, lifecycle.high_watermarks, self.metadata.on_time)
        self.delegation_tokens = self.logins.delegation_tokens = self._make_delegation_tokens()

    def _on_records(self, records: Sequence[TailedRecord]) -> None:
        self.metadata_loader.add(records)

    def _on_secret(self, secret: ClusterSecret) -> None:
        self.peers.agree_on(secret)
        self._secret_file.keep(self.context, secret)

    def _make_partition_parts(self, image_log: ImageLog, session_timeout_ms: int) -> None:
        """The parts that host, replicate and repair partitions."""
        context, lifecycle, begin_change = self.context, self.metadata.lifecycle, self.metadata.begin_own
        partitions, log_store, changed = self.partitions, self.log_store, self.partition_changed
        self.log_failures = failures = LogFailures(context, partitions, log_store, changed, self._report_room)
        self.offline_replicas = offline = OfflineReplicas(
            context, partitions, log_store, failures, changed, begin_change
        )
        self.local_replicas = LocalReplicas(context, lifecycle, partitions, log_store, offline, changed)
        self.metadata_loader = MetadataLoader(
            context, image_log, log_store, self.local_replicas, offline, failures, self
        )
        self.flusher = Flusher(context, partitions, failures, changed)
        self.isr_changes = IsrChanges(context, partitions, lifecycle, begin_change, self.advanced)
        self.follower_sessions = FollowerSessions(
            context, partitions, self.isr_changes, changed, self.advanced, self.moved_high_watermarks.mark
        )
        self.store_outage = StoreOutage(
            context, self.metadata, session_timeout_ms, partitions, self.follower_sessions.last_fetch_ms
        )
        self.leadership = Leadership(context, partitions, self.store_outage.is_isolated)
        self.leader_appends = LeaderAppends(
            context, partitions, self.leadership, failures, self.flusher, self.follower_sessions.appended, self.advanced
        )
        self.truncations = Truncations(context, log_store, failures, self.flusher, changed)
        follower_logs = FollowerLogs(context, self.flusher, failures, changed, self.advanced, self.counters.replicated)
        self.replica_fetchers = ReplicaFetchers(
            context, lifecycle, partitions, self.peers, follower_logs, self.truncations
        )
        self._make_upkeep_parts()

    def _make_upkeep_parts(self) -> None:
        """The parts that repair, clean, shorten and read logs."""
        context, failures = self.context, self.log_failures
        partitions, log_store, changed = self.partitions, self.log_store, self.partition_changed
        self.damaged_replicas = DamagedReplicas(
            context,
            self.offline_replicas.exits,
            self.replica_fetchers.changed,
            self.replica_fetchers.is_naming,
            failures.log_damaged,
        )
        self.maintenance = maintenance = Maintenance(context, partitions, log_store, failures, changed)
        self.log_cleaner = LogCleaner(
            context, failures, self.damaged_replicas, maintenance.delete_later, maintenance.checkpoint_soon
        )
        self.log_moves = LogMoves(
            context, self.node_id, partitions, log_store, failures, self.flusher, maintenance, changed
        )
        self.shutdown = ControlledShutdown(self)
        self.sessions = ConsumerSessions(self.context, self.partitions, self.rng, self.connections)
        self.fetches = Fetches(self)

    def _handlers_by_event(self) -> dict[type, Callable[[Any], None]]:
        """The handler of each event type except `FrameReceived`."""
        return {
            events.ConnectionOpened: self._on_opened,
            events.ConnectionClosed: self._on_closed,
            events.TurnEnd: self._on_turn_end,
            events.TimerDue: self._on_timer,
            events.JobDone: self.jobs.on_done,
            **(
                self._store_handlers
                if self.quorum is None
                else dict.fromkeys(self._store_handlers, self.quorum.on_redis)
            ),
            events.PeerConnected: self.peers.on_connected,
            events.PeerAnswered: self.peers.on_answered,
            events.PeerLost: self.peers.on_lost,
            events.WallClockMoved: self._on_wall_clock_moved,
            events.OwnUsersChanged: self.logins.on_own_users,
            events.StopRequested: self.shutdown.on_stop_requested,
        }

    def _partition_listeners(self) -> dict[PartitionEvent, tuple[PartitionListener, ...]]:
        """The parts that each event notifies, in this order."""
        log_cleaner, followers = self.log_cleaner, self.follower_sessions

        def checkpoint_soon(_partition: Partition) -> None:
            self.maintenance.checkpoint_soon()

        def fail(error_code: ErrorCode) -> tuple[PartitionListener, ...]:
            return partial(Partition.fail_waiters, error_code=error_code), self.record_deletions.on_log_start

        replicated = (self.replica_fetchers.changed, followers.changed)
        role = (
            self.group_coordinator.runtime.partition_changed,
            self.transaction_coordinator.runtime.partition_changed,
            *replicated,
        )
        led = (self.isr_changes.epoch_began, log_cleaner.consider, self.flusher.consider)
        gone = (log_cleaner.forget, self.offline_replicas.exits.forget, *role, self.counters.replica_removed)
        return {
            PartitionEvent.ADDED: (self.counters.replica_added, self.damaged_replicas.added),
            PartitionEvent.LEADER_CHANGED: (
                *fail(ErrorCode.not_leader_or_follower),
                self.leader_appends.defer_early,
                *role,
                *led,
            ),
            PartitionEvent.LEADER_EPOCH_CHANGED: (*replicated, *led, self.transaction_coordinator.epoch_changed),
            PartitionEvent.ISR_CHANGED: (followers.request_full_fetches, self.isr_changes.check),
            PartitionEvent.OFFSETS_MOVED: (self.advanced,),
            PartitionEvent.LOG_START_MOVED: (Partition.mark_sessions, followers.watermark_moved),
            PartitionEvent.FOLLOWER_LOG_START_MOVED: (self.record_deletions.on_log_start,),
            PartitionEvent.GAP_FOUND: (checkpoint_soon,),
            PartitionEvent.FOLLOWER_FLUSHED: (self.replica_fetchers.flushed, self.advanced),
            PartitionEvent.CLOSED_SEGMENTS_FLUSHED: (log_cleaner.consider,),
            PartitionEvent.CONFIG_CHANGED: (log_cleaner.consider, self.flusher.consider),
            PartitionEvent.LOG_TRUNCATED: (self.replica_fetchers.changed,),
            PartitionEvent.LOG_MOVED: (self.replica_fetchers.changed, log_cleaner.consider),
            PartitionEvent.LOG_OFFLINE: (*fail(ErrorCode.kafka_storage_error), *role, self.offline_replicas.leave),
            PartitionEvent.LOG_RECREATED: (self.damaged_replicas.added, *role, *led, checkpoint_soon),
            PartitionEvent.REMOVED: (self.moved_high_watermarks.forget, *fail(ErrorCode.not_leader_or_follower), *gone),
            PartitionEvent.DELETED: (
                self.moved_high_watermarks.forget,
                *fail(ErrorCode.unknown_topic_or_partition),
                *gone,
            ),
        }

    def _report_room(self) -> None:
        """Report whether some log directory has room."""
        self.metadata.report_full(is_full=not self.log_store.has_room())

    def stop_leading(self) -> None:
        """Lead no partition any more, and begin no work but what the others need to take over."""
        self.leadership.stop()
        for partition in self.partitions.values():
            self.follower_sessions.changed(partition)
        self.failure_watch.stop()
        self.group_coordinator.runtime.stop()
        self.transaction_coordinator.stop()
        self.verification.requests.close()

    def stop_following(self) -> None:
        """This broker has left the cluster: fetch nothing, and let another node lead the quorum."""
        self.replica_fetchers.stop()
        if self.quorum is not None:
            self.quorum.stop()

    def finish_writes(self) -> None:
        """End the work on files that the step does: the logs are about to be closed."""
        self.metadata_loader.finish_slices()
        self.local_replicas.release_slice(None)
        self.context.is_closing = True

    def configs_changed(self) -> None:
        """Apply the configs of this broker."""
        self._put_configs_in_force()
        self.fetches.throttle.update_rate()
        self.log_moves.throttle.update_rate()
        self.listener_configs.apply()

    def _put_configs_in_force(self) -> None:
        """Take the configs that can change while the broker runs from the image."""
        context, image = self.context, self.context.image
        before = context.config
        now = context.config = self.config.in_force(
            image.broker_configs.get(self.node_id, {}), image.default_broker_configs
        )
        limits = now.max_connections, now.max_connections_per_ip
        if limits != (before.max_connections, before.max_connections_per_ip):
            self.emit(events.LimitConnections(*limits))

    def image_changed(self, before: Image, delta: Delta) -> None:
        """All partitions match a new image: notify the parts that need all of it, in this order."""
        if delta.changes_logs:
            self.replica_fetchers.configs_changed()
        if self.image.quotas is not before.quotas:
            self.throttling.set_quotas(self.image.quotas)
        if self.image.acls is not before.acls:
            self.authorization.image_changed()
        self.replica_bound.image_changed(before, delta)
        self.group_coordinator.runtime.topics_changed(delta.topics_changed)
        self.transaction_coordinator.runtime.topics_changed(delta.topics_changed)
        deleted = self.local_replicas.deleted_topics(before, self.image, delta)
        self.group_coordinator.expiry.topics_deleted(deleted)
        if delta.brokers_changed:
            self._broker_listeners.check()
            self.record_deletions.on_brokers()
            self.expected_followers.on_brokers()
        self.metadata.image_changed(delta)
        if delta.brokers_changed:
            self.replica_fetchers.brokers_changed(delta.brokers_changed)
            self.isr_changes.brokers_changed()
            for sender in (self.marker_sender, self.verification, self.controller_requests):
                sender.requests.brokers_changed(delta.brokers_changed)
        self.recently_fenced.image_changed()
        self.failure_watch.image_changed(delta)
        self.suspected_brokers.wake()
        self.shutdown.image_changed()

    def metadata_log_failed(self, error: BaseException) -> None:
        """This broker's copy of the metadata log failed: it applies and makes no more changes of the metadata."""
        self.metadata.log_failed(error)

    def _on_broker_dead(self, node_id: NodeId, broker_epoch: BrokerEpoch) -> None:
        self.metadata.peer_is_dead(node_id, broker_epoch)

    def _suspect(self, node_id: NodeId) -> None:
        self.failure_watch.suspect(node_id)

    def _make_peers(self, parts: Parts) -> Peers:
        cluster_id = None if parts.quorum is None else parts.quorum.config.cluster_id
        listener = parts.identity.inter_broker
        return Peers(self.context, parts.rng, self._incarnation, self._suspect, cluster_id, listener)

    def _make_listener_parts(self, identity: Identity) -> None:
        self._broker_listeners = BrokerListeners(self.context, identity)
        self.listener_configs = ListenerConfigs(self.context, self.node_id)

    def _make_client_parts(self, parts: Parts) -> None:
        """The parts that stand between a client's request and its handler."""
        self.throttling = Throttling(self.context, parts.processor_ns, self.close_connection)
        self.audit = Audit(self.emit, parts.apis.names)
        self.authorization = Authorization(self.context, self.audit.denied)
        self.purgatory = Purgatory(self.context, self.serve, self.answer_late)
        self.faults = FaultInjection(self, parts.apis)
        self.large_requests = LargeRequests(self)
        verifiers = token_verifiers(self.context, parts.identity.endpoints, parts.fetch_web)
        self.logins = Logins(self, parts.own_users, verifiers)

    def _make_delegation_tokens(self) -> DelegationTokens | None:
        """The delegation tokens, if they are enabled; other brokers do not import them."""
        secret_key = self.config.static.get("delegation.token.secret.key", "").strip()
        if not secret_key:
            return None
        from yak.broker.delegation_tokens import DelegationTokens

        return DelegationTokens(self.context, self.node_id, self.rng, self.metadata.begin_own, secret_key)

    def _incarnation(self) -> Incarnation:
        return Incarnation(self.node_id, self.metadata.lifecycle.broker_epoch, self.identity.boot_id)

    # ---------------------------------------------------------------------------------------- events in, effects out

    def step(self, event: events.Event, now_ms: int) -> list[events.Effect]:
        """Apply one event at `now_ms` (ms since the epoch, never going back); returns the effects, in order.

        Raises FailStop after an unexpected exception outside `serve`, then for every later event: the process must end.
        """
        if self._failure is not None:
            raise self._failure
        self.now_ms = self._clock.now_ms = now_ms
        try:
            if type(event) is events.FrameReceived:
                connection = self.connections.get(event.connection_id)
                if connection is not None:
                    self.on_frame(connection, event.frame)
            else:
                self._handlers[type(event)](event)
                if type(event) is not events.TurnEnd:
                    self.purgatory.check_advanced()
            if self.quorum is not None and self.quorum.events:
                self._take_store_events()
        except FailStop as failure:
            self._failure = failure
            raise
        except Exception as error:
            self._failure = FailStop(type(event).__name__)
            raise self._failure from error
        effects = self._effects
        self._effects = []
        return effects

    def _on_store_lost(self, event: events.StoreLost) -> None:
        self.store_outage.began()
        self.metadata.on_store_lost(event)

    def _on_store_connected(self, event: events.StoreConnected) -> None:
        self.store_outage.ended()
        self.metadata.on_store_connected(event)
        self.moved_high_watermarks.mark_all(self.partitions.values())

    def _take_store_events(self) -> None:
        """Handle what the metadata store in or behind the quorum's node reported in this step."""
        assert self.quorum is not None
        waiting = self.quorum.events
        while waiting:
            event = waiting.popleft()
            self._store_handlers[type(event)](event)

    def next_due(self) -> int | None:
        """The time of the next `TimerDue`, in ms; None while no timer is set."""
        return self.timers.next_due()

    def backlog(self, connection_id: ConnectionId) -> int:
        """Requests of a connection that were stepped but not answered; the shell stops reading at its bound.

        A large request counts as the whole bound, since the requests behind it would only wait; so do more answers that
        wait for an earlier one than may be unsent.
        """
        connection = self.connections.get(connection_id)
        if connection is None:
            return 0
        held = len(connection.calls)
        is_full = connection.frames_behind_large is not None or connection.answer_bytes > UNSENT_REPLY_BYTES_MAX
        return held + REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX if is_full else held

    # ----------------------------------------------------------------------------------------- called by handlers

    @property
    def metadata_in_quorum(self) -> bool:
        """Whether the metadata are in the brokers' quorum, not in Redis, as far as this broker knows."""
        return self.quorum is not None and self.quorum.is_store

    @property
    def metadata_stores(self) -> tuple[str, ...]:
        """The metadata stores that this broker was started with, one of which has the metadata."""
        if self.quorum is None:
            return ("redis",)
        return ("raft",) if self.quorum.choice is None else ("redis", "raft")

    @property
    def wall_ms(self) -> int:
        """The wall clock in ms since the epoch: for timestamps and comparisons with them. It may go back."""
        return self._clock.wall_ms

    @property
    def held_bytes(self) -> int:
        """Bytes of copied requests and of answers that wait for earlier ones, which the shell counts as memory."""
        return self.leader_appends.held_bytes + self.large_requests.held_bytes + self._held_answers.held_bytes

    @property
    def image(self) -> Image:
        """The cluster's metadata that this broker has on its disk."""
        return self.context.image

    @property
    def config_levels(self) -> tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]]:
        """The broker configs below a topic's or group's: this broker's, those of all brokers, and the static ones."""
        image = self.context.image
        return image.broker_configs.get(self.node_id, {}), image.default_broker_configs, self.config.static

    def emit(self, effect: events.Effect) -> None:
        """Add an effect to those that this step returns."""
        self._effects.append(effect)

    def topic_name(self, topic_id: uuid.UUID | None) -> str | None:
        """The name of the topic with this id; None when there is no such topic."""
        topic = self.context.image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def full_brokers(self) -> frozenset[NodeId]:
        """Brokers without room for another log: from this broker's disks, and from the heartbeats of the others."""
        others = self.metadata.lifecycle.heartbeats.full - {self.node_id}
        return others if self.log_store.has_room() else others | {self.node_id}

    def advanced(self, partition: Partition) -> None:
        """The high watermark, flushed end or log start moved: check delayed operations at the end of the turn.

        Each produce and most fetches call it, so it is written out instead of being a list of listeners.
        """
        self.purgatory.advanced[partition] = None
        self.moved_high_watermarks.mark(partition)
        if partition.sessions:
            partition.mark_sessions()
        if partition.replica_sessions:
            self.follower_sessions.watermark_moved(partition)

    def partition_changed(self, partition: Partition, event: PartitionEvent) -> None:
        """Notify the parts of this broker that a partition changed."""
        for listener in self._listeners[event]:
            listener(partition)

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether this broker's replica has no usable log: its directory failed, or the log is missing or damaged."""
        partition: Partition | None = self.partitions.get((topic, index))  # type: ignore[call-overload]
        return partition is not None and partition.log is None

    def became_ready(self) -> None:
        """The broker is registered and has caught up with the metadata: the shell may listen."""
        self.takes_clients = True
        self._effects.append(events.Ready())
        self.local_replicas.remove_leftovers()
        self.producer_ids.refill()

    def close_connection(self, connection: Connection, reason: str) -> None:
        """Close after the answers given so far; no further request of this connection is stepped."""
        if connection.is_open:
            connection.is_open = False
            self._effects.append(events.CloseConnection(connection.connection_id, reason))

    def serve(self, connection: Connection, request: S, action: Callable[[Connection, S], None]) -> None:
        """Run `action` for one request: an unexpected exception closes its connection, and everything else goes on.

        `action` changes replicated state only in functions marked with `yak.fail_stop.changes_state`.
        """
        try:
            if self.throttling.is_active:
                self.throttling.serve(connection, request, action)
            else:
                action(connection, request)
        except ProtocolViolation as violation:
            self.close_connection(connection, str(violation))
        except Exception as error:  # noqa: BLE001 - a bug in serving one request must not end the others
            raise_if_state_changed(error)
            fields: dict[str, object] = {
                "api": self._api_of(request),
                "peer": connection.peer,
                "what": type(error).__name__,
            }
            self._effects.append(events.Notice("error", "request-failed", fields, is_provoked=True, error=error))
            self.close_connection(connection, "internal error")

    def _api_of(self, request: memoryview | DelayedOperation) -> str:
        """The name of a request's API, for the log."""
        key = request.call.api_key if isinstance(request, DelayedOperation) else int.from_bytes(request[:2], "big")
        return self.apis.names.get(key, str(key))

    # ------------------------------------------------------------------------------------------------- events

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        """Serve one request; behind a large one of its connection it waits."""
        if connection.is_open:
            if connection.frames_behind_large is None:
                self.serve(connection, frame, self._handle)
            else:
                self.large_requests.keep(connection, frame)

    def _handle(self, connection: Connection, frame: memoryview) -> None:
        if (login := connection.login) is not None and login.takes_bare_tokens:
            if (taken := self.logins.authenticate_bare(connection, login, frame)) is not None:
                self._settle(*taken)
            return
        session = connection.replica_session
        if session is not None and (repeated := self.fetches.answer_repeated(connection, session, frame)):
            self._settle(*repeated)
            return
        produce = connection.repeated_produce
        known = None if produce is None else produce.read(frame)
        header, request = (read_request_header(frame), None) if known is None else known
        api_key, version, correlation_id, client_id, _ = header
        if not self.takes_clients and api_key not in SERVED_EARLY:
            self.close_connection(connection, "this broker has not joined the cluster yet")
            return
        if login is not None and not self.logins.admits(connection, login, api_key, len(frame)):
            return
        handle = self._api_handlers.get((api_key, version))
        call = Call(connection, api_key, version, correlation_id, client_id, self.now_ms)
        if self.throttling.is_active:
            call.request_bytes = len(frame)
        if handle is None or (self.as_kafka is not None and self.as_kafka.refuses(call)):
            handle = self._unserved(call)
        elif request is not None:
            call.request = request
        elif not self._decode(call, handle, header, frame):
            return
        outcome = self.faults.serve(handle, call) if self.faults.is_active else handle(self, call)
        if session is not None and session.may_learn:
            session.learn(frame)
        self._settle(call, outcome)

    def _decode(self, call: Call, handle: Handler, header: RequestHeader, frame: memoryview) -> bool:
        """Set the call's request; False for a large one, which is served in slices. Raises ProtocolViolation."""
        connection = call.connection
        if connection.proven is not None:
            elements_max = BROKER_REQUEST_ELEMENTS_MAX
        elif connection.is_in_process or len(frame) > LARGE_REQUEST_BYTES_MAX:
            elements_max = REQUEST_ELEMENTS_MAX
        else:
            elements_max = LARGE_REQUEST_ELEMENTS
        try:
            call.request = decode_request(call.api_key, call.version, frame, header.body_offset, elements_max)
        except TooManyElements:
            if elements_max != LARGE_REQUEST_ELEMENTS:
                raise
            self.large_requests.add(call, self._serve_in_slices(handle, call), frame, header.body_offset)
            return False
        if call.api_key == PRODUCE:
            if connection.repeated_produce is None:
                connection.repeated_produce = RepeatedProduce()
            connection.repeated_produce.learn(frame, header, call.request)
        return True

    def _serve_in_slices(self, handle: Handler, call: Call) -> Slices:
        if self.faults.is_active:
            return self.faults.serve(handle, call)
        slices = self.apis.sliced.get((call.api_key, call.version))
        return handle(self, call) if slices is None else (yield from slices(self, call))

    def _unserved(self, call: Call) -> Handler:
        """ApiVersions of an unknown version is answered as v0 (KIP-511); any other request closes the connection."""
        if call.api_key != API_VERSIONS_KEY:
            known = "version" if any(key == call.api_key for key, _version in self.apis.handlers) else "API key"
            raise ProtocolViolation(f"unserved {known}: key {call.api_key} version {call.version}")
        call.version = 0
        return self.apis.refuse_version

    def _settle(self, call: Call, outcome: Outcome) -> None:
        connection = call.connection
        if type(outcome) is Now and (large := self.large_requests.encode(call, outcome)) is not None:
            outcome = Later(large)
        if type(outcome) is Later:
            call.came_ns = self.counters.turn_ns
            connection.calls.append(call)
            self.purgatory.add(outcome.operation)
            return
        self._note_answer(call.api_key)
        if outcome is None:
            return
        parts = outcome if type(outcome) is list else self._encode(call, outcome)
        if connection.calls:
            connection.calls.append(call)
            connection.keep_answer(call, parts)
            self._hurry_fetches_before(call)
        else:
            self._effects.append(_make(events.Reply, (connection.connection_id, parts)))

    def settle_large(self, call: Call, outcome: Outcome) -> None:
        """Delay or release the answer of a large request that was served."""
        if type(outcome) is Later:
            # no bytes: this makes the shell read the connection again
            self._effects.append(events.Reply(call.connection.connection_id, []))
            self.purgatory.add(outcome.operation)
            return
        self.answer_late(call, outcome)

    def answer_late(self, call: Call, outcome: Answer) -> None:
        """Encode an answer that was delayed, and send it after the earlier answers of its connection."""
        if type(outcome) is Now and (large := self.large_requests.encode(call, outcome)) is not None:
            self.purgatory.add(large)
            return
        self.counters.waited.append((call.api_key, call.came_ns))
        call.connection.keep_answer(call, [] if outcome is None else self._encode(call, outcome))
        self._hurry_fetches_before(call)
        call.connection.release_answers(self._effects)

    def _hurry_fetches_before(self, call: Call) -> None:
        """Answer the fetches that wait for more data, and behind which this answer has to wait.

        Else it would be older than theirs, which clients do not expect: Kafka serves a connection's requests one after
        the other. An old end offset makes KafkaConsumer.currentLag negative, and Streams wait.
        """
        calls = call.connection.calls
        if not calls or calls[0] is call:
            return
        for earlier in tuple(calls):
            if earlier is call:
                return
            if earlier.delayed is not None and earlier.delayed.is_waiting_for_more:
                self.purgatory.complete(earlier.delayed)

    def _encode(self, call: Call, outcome: Now | Encoded) -> list[Part]:
        if type(outcome) is list:
            return outcome
        assert type(outcome) is Now
        fields = self.answered_fields(call, outcome.fields)
        at_once(self.counters.note_errors(call.api_key, fields))
        return [*encode_response(call.api_key, call.version, call.correlation_id, fields)]

    def answered_fields(self, call: Call, fields: Fields) -> Fields:
        """The fields of an answer that is sent now, with its throttle time; its changes go to the audit log."""
        self.audit.answered(call, fields)
        return self.throttling.throttled_fields(call, fields) if self.throttling.is_active else fields

    def _on_opened(self, event: events.ConnectionOpened) -> None:
        self.connections[event.connection_id] = connection = Connection(
            event.connection_id,
            event.peer,
            event.round_trip_ms,
            is_in_process=event.is_in_process,
            principal=event.principal,
            listener=self.metadata.lifecycle.identity.inter_broker if event.is_in_process else event.listener,
            held_answers=self._held_answers,
        )
        if event.listener.security_protocol.uses_sasl and not event.is_in_process:
            self.logins.begin(connection)
        if self.throttling.is_active:
            self.throttling.opened(connection)

    def _on_closed(self, event: events.ConnectionClosed) -> None:
        connection = self.connections.pop(event.connection_id, None)
        if connection is None:
            return
        connection.is_open = False
        for call in connection.calls:
            if call.delayed is not None:
                self.purgatory.cancel(call.delayed)
        connection.forget_calls()
        self.logins.forget(connection)
        self.throttling.closed(connection)
        self.follower_sessions.forget_connection(connection)

    def _on_wall_clock_moved(self, event: events.WallClockMoved) -> None:
        moved_ms, self._clock.ahead_ms = event.ahead_ms - self._clock.ahead_ms, event.ahead_ms
        self.context.notice("warning", "wall-clock-moved", by_ms=moved_ms)

    def _on_turn_end(self, event: events.TurnEnd) -> None:  # noqa: ARG002
        """Do once what all events of the turn made due.

        An answer to a follower may take a fetch offset that advances a high watermark or puts the follower in sync. So
        it comes before the ISR changes and the second check. Flushes come last: they cover all that the turn appended.
        """
        purgatory = self.purgatory
        purgatory.check_advanced()
        self.replica_fetchers.run()
        self.follower_sessions.wake()
        self.truncations.start_wanted()
        self.isr_changes.run()
        purgatory.check_advanced()
        self.flusher.start_wanted()

    def _on_timer(self, event: events.TimerDue) -> None:  # noqa: ARG002
        self.timers.run_due(self.now_ms)
        self.flusher.start_wanted()
