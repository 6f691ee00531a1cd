"""How the cluster's metadata reach this broker, and how its changes reach the cluster.

Records of the metadata log are made durable here before anything acts on them (persist before act): they are appended to
the image log and synced in a job, the logs of new partitions are created in the same job, and only then the image
is replaced and partitions take their new state. One such batch is under way at a time, in order.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from yak.broker import events
from yak.broker.lost_directories import LostDirectories, find_lost
from yak.cluster import outputs as out
from yak.cluster.image import ChainBroken, Delta, Image, PartitionInfo, TopicInfo
from yak.cluster.membership import Membership
from yak.cluster.payload import BadRecord
from yak.config.topic_configs import resolve_log_config
from yak.errors import ErrorCode, LogDirectoryFailure, PeerError
from yak.ids import TopicPartition
from yak.replication.partition import Partition
from yak.seams.metadata_store import StoreRequest, TailedRecord
from yak.storage.log import Log

if TYPE_CHECKING:
    from yak.broker.broker import Broker, Parts
    from yak.broker.changes_waiting import ChangesWaiting

Created: TypeAlias = dict[TopicPartition, Log | OSError | LogDirectoryFailure]

REPORT_INTERVAL_MS = 200
"""High watermarks are reported to the store at most five times a second."""


class Metadata:
    """The image in force, the membership that renews it, and the changes that wait for it."""

    def __init__(self, broker: Broker, parts: Parts) -> None:
        self._broker = broker
        self._nonce = 0
        self.image: Image = parts.image
        self._image_log = parts.image_log
        self._log_store = parts.log_store
        self.membership = Membership(
            parts.identity, parts.image, next_nonce=self._next_nonce, dice=parts.dice, settings=parts.membership
        )
        self._queue: deque[list[TailedRecord]] = deque()
        self._busy = False
        self._failed = False
        self._changes: dict[int, Callable[[PeerError | None, tuple[dict[str, Any], ...]], None]] = {}
        self.moved: dict[Partition, None] = {}
        """Partitions whose high watermark moved since the last report."""
        self._report_due_ms: int | None = None
        self.on_left: Callable[[], None] | None = None
        for topic in self.image.topics.values():
            for info in topic.partitions:
                if broker.node_id in info.replicas:
                    self._host(topic, info, self._log_of(topic, info))

    def _next_nonce(self) -> int:
        self._nonce += 1
        return self._nonce

    # ------------------------------------------------------------------------------------------------- events

    def on_store_connected(self, event: events.StoreConnected) -> None:
        """The store answers."""
        self._carry_out(self.membership.on_connected(event.process_id, event.unsafe, self._broker.now_ms))

    def on_store_lost(self, event: events.StoreLost) -> None:
        """The store is away: the data path goes on, metadata changes wait."""
        self._carry_out(self.membership.on_lost(event.reason, self._broker.now_ms))

    def on_store_replied(self, event: events.StoreReplied) -> None:
        """A script answered."""
        self._carry_out(self.membership.on_replied(event.nonce, event.outcome, self._broker.now_ms))

    def on_records_tailed(self, event: events.RecordsTailed) -> None:
        """New records: check their chain, then persist, then act."""
        if self._failed:
            return
        good, outputs = self.membership.admit(event.records, self._broker.now_ms)
        self._carry_out(outputs)
        if good:
            self._queue.append(list(good))
            self._persist_next()

    def on_timer(self) -> None:
        """Let the membership and the reports run by the clock."""
        now_ms = self._broker.now_ms
        due_ms = self.membership.next_due()
        if due_ms is not None and due_ms <= now_ms:
            self._carry_out(self.membership.on_time(now_ms))
        if self._report_due_ms is not None and self._report_due_ms <= now_ms:
            self._report()

    def next_due(self) -> int | None:
        """When `on_timer` is wanted, in ms."""
        due_ms = self.membership.next_due()
        if self.moved and self._report_due_ms is None:
            self._report_due_ms = self._broker.now_ms + REPORT_INTERVAL_MS
        if self._report_due_ms is None:
            return due_ms
        return self._report_due_ms if due_ms is None else min(due_ms, self._report_due_ms)

    def leave(self, on_left: Callable[[], None]) -> None:
        """Tell the cluster that this broker stops; `on_left` is called when it knows, or cannot be told."""
        self.on_left = on_left
        self._carry_out(self.membership.leave(self._broker.now_ms))

    # ------------------------------------------------------------------------------------------------ changes

    def begin(self, waiting: ChangesWaiting, key: object, requests: Sequence[StoreRequest]) -> None:
        """Send one change for `waiting`; raises PeerError with a retriable code when the store is away or frozen."""

        def done(error: PeerError | None, values: tuple[dict[str, Any], ...]) -> None:
            waiting.resolve(self._broker, key, error, values)

        waiting.pending[key] = self.begin_own(requests, done)

    def begin_own(
        self,
        requests: Sequence[StoreRequest],
        done: Callable[[PeerError | None, tuple[dict[str, Any], ...]], None],
    ) -> int:
        """Send one change of the broker's own; `done(error, values)` is called when it is in the image, or refused."""
        if self._failed:
            raise PeerError(
                ErrorCode.kafka_storage_error, "this broker's copy of the metadata log failed; it must be restarted"
            )
        change_id, outputs = self.membership.begin(requests, self._broker.now_ms)
        self._changes[change_id] = done
        self._carry_out(outputs)
        return change_id

    def abandon(self, change_id: int) -> None:
        """Nobody waits for this change any more; it may still happen."""
        if self._changes.pop(change_id, None) is not None:
            self.membership.abandon(change_id)

    def log_config(self, topic: TopicInfo) -> Any:
        """The resolved log configuration of a topic."""
        return resolve_log_config(
            topic.configs,
            self.image.broker_configs.get(self._broker.node_id, {}),
            self.image.default_broker_configs,
            self._broker.config.static,
        )

    # ------------------------------------------------------------------------------------------------ inside

    def _carry_out(self, outputs: Sequence[out.Output]) -> None:
        broker = self._broker
        for output in outputs:
            match output:
                case out.Call(nonce, request):
                    broker.emit(events.CallStore(nonce, request))
                case out.Tail(after):
                    broker.emit(events.TailStore(after))
                case out.Say(level, event, fields):
                    broker.emit(events.Notice(level, event, dict(fields)))
                case out.BecameReady():
                    broker.became_ready()
                case out.Refuse(code, message, why, try_):
                    broker.emit(events.Refused(code, message, why, tuple(try_)))
                case out.ChangeDone(change_id, error, values):
                    done = self._changes.pop(change_id, None)
                    if done is not None:
                        done(error, values)
                case out.Left():
                    if self.on_left is not None:
                        self.on_left()

    def _persist_next(self) -> None:
        if self._busy or not self._queue:
            return
        records = [record for batch in self._queue for record in batch]
        self._queue.clear()
        try:
            image, delta = self.image.apply_all(records)
            sync = self._image_log.append(records)
        except (OSError, BadRecord, ChainBroken) as error:
            self._fail(error)
            return
        self._busy = True
        missing = self._without_lost(records, self._missing_logs(image, delta))
        replacing = [new for new in missing if new[0] in self._broker.partitions]
        fresh = [new for new in missing if new[0] not in self._broker.partitions]

        def work() -> tuple[LogDirectoryFailure | None, Created]:
            # logs first: what our copy of the metadata names has a folder, so one that is missing at a start was lost
            created = self._create_all(fresh)
            sync()
            return self._mark_directories(image.cluster_id), created

        def done(result: Any, error: BaseException | None) -> None:
            if error is not None:
                self._fail(error)
                return
            failure, created = result
            if failure is not None:
                self._broker.directory_failed(failure)
            if not replacing:
                finish(created, None)
                return
            # a topic was deleted and made again: its old logs leave their folders before the new ones take them
            for name, topic_id in delta.topics_removed:
                self._drop(name, topic_id)
            self._broker.jobs.run("image", lambda: created | self._create_all(replacing), finish)

        def finish(created: Any, error: BaseException | None) -> None:
            if error is not None:
                self._fail(error)
                return
            self._busy = False
            self._act(image, delta, created)
            self._persist_next()

        self._broker.jobs.run("image", work, done)

    def _fail(self, error: BaseException) -> None:
        """The copy of the metadata log is of no use any more: nothing new is acted on until a restart, data go on."""
        self._failed = True
        self._broker.notice("error", "metadata-log-failed", error=str(error))
        changes, self._changes = self._changes, {}
        for change_id, done in changes.items():
            self.membership.abandon(change_id)
            done(
                PeerError(ErrorCode.request_timed_out, "the metadata cannot be stored here; the result is unknown"), ()
            )

    def _mark_directories(self, cluster_id: str) -> LogDirectoryFailure | None:
        """Write the cluster's id where it is not yet; the first directory that failed at it."""
        if cluster_id and self._log_store.lacks_cluster_id():
            try:
                self._log_store.set_cluster_id(cluster_id)
            except LogDirectoryFailure as failure:
                return failure
        return None

    def _create_all(self, missing: Sequence[tuple[TopicPartition, uuid.UUID, Any]]) -> Created:
        return {tp: self._create(tp, topic_id, config) for tp, topic_id, config in missing}

    def _missing_logs(self, image: Image, delta: Delta) -> list[tuple[TopicPartition, uuid.UUID, Any]]:
        missing = []
        for name in delta.topics_changed:
            topic = image.topics[name]
            config = None
            for info in topic.partitions:
                if self._broker.node_id not in info.replicas:
                    continue
                held = self._broker.partitions.get(TopicPartition(name, info.partition))
                if held is None or held.topic_id != topic.topic_id:
                    config = config or self.log_config(topic)
                    missing.append((TopicPartition(name, info.partition), topic.topic_id, config))
        return missing

    def _without_lost(
        self, records: Sequence[TailedRecord], missing: list[tuple[TopicPartition, uuid.UUID, Any]]
    ) -> list[tuple[TopicPartition, uuid.UUID, Any]]:
        """Logs to create, but those that a data directory which is not here may hold."""
        lost = find_lost(self.image, records, self._broker.identity) if missing else LostDirectories()
        offline = [new for new in missing if new[0] in lost.partitions and new[0] not in self._log_store.logs]
        if not offline:
            return missing
        self._broker.notice(
            "error",
            "data-directory-missing",
            directory_ids=", ".join(lost.missing_ids),
            partitions=len(offline),
            what="these partitions stay offline: mount the directory and restart, or delete their topics",
        )
        return [new for new in missing if new not in offline]

    def _create(
        self, topic_partition: TopicPartition, topic_id: uuid.UUID, config: Any, *, is_new: bool = True
    ) -> Log | OSError | LogDirectoryFailure:
        try:
            return self._log_store.create(topic_partition, topic_id, config, is_new=is_new)
        except (OSError, LogDirectoryFailure) as error:
            return error

    def _act(self, image: Image, delta: Delta, created: Created) -> None:
        broker = self._broker
        self.image = image
        for name, topic_id in delta.topics_removed:
            self._drop(name, topic_id)
        for name in delta.topics_changed:
            topic = image.topics[name]
            for info in topic.partitions:
                topic_partition = TopicPartition(name, info.partition)
                held = broker.partitions.get(topic_partition)
                if broker.node_id in info.replicas:
                    log = None if held is None or held.topic_id != topic.topic_id else held.log
                    if topic_partition in created:
                        log = self._taken(topic, topic_partition, created[topic_partition])
                    self._host(topic, info, log)
        if delta.configs_changed:
            self._apply_configs(delta)
        self._carry_out(self.membership.on_image(image, broker.now_ms))
        compact = self._image_log.compaction(image)
        if compact is not None:
            broker.jobs.run("image", compact, self._compacted)

    def _taken(self, topic: TopicInfo, topic_partition: TopicPartition, created: Any) -> Log | None:
        """What a job created, or found on disk, as long as it can be used."""
        broker = self._broker
        if isinstance(created, (OSError, LogDirectoryFailure)):
            broker.notice("error", "log-not-created", partition=str(topic_partition), error=str(created))
            return None
        log: Log = created
        if not self._log_store.settle(log):
            return None
        if log.log_end_offset:
            # it was here before this broker's copy of the metadata was
            log.update_config(self.log_config(topic))
            return self._flushed(log)
        return log

    def _compacted(self, result: Any, error: BaseException | None) -> None:  # noqa: ARG002
        if error is not None:
            self._broker.notice("warning", "metadata-log-not-compacted", error=str(error))

    def _host(self, topic: TopicInfo, info: PartitionInfo, log: Log | None) -> None:
        """Take the role that the image gives for one partition of ours."""
        broker = self._broker
        topic_partition = TopicPartition(topic.name, info.partition)
        partition = broker.partitions.get(topic_partition)
        if partition is None or partition.topic_id != topic.topic_id:
            partition = Partition(topic_partition, topic.topic_id, log)
            if log is not None:
                partition.high_watermark = log.log_start_offset
            broker.partitions[topic_partition] = partition
        if partition.become(
            node_id=broker.node_id,
            leader_id=info.leader,
            leader_epoch=info.leader_epoch,
            partition_epoch=info.partition_epoch,
            replicas=info.replicas,
            isr=info.isr,
        ):
            broker.leadership_changed(partition)

    def _log_of(self, topic: TopicInfo, info: PartitionInfo) -> Log | None:
        """The log on disk of a partition that the image knows at start; None, and offline, when its folder is gone.

        A folder of another topic by that name says that the topic was made again and its log was not made yet.
        """
        topic_partition = TopicPartition(topic.name, info.partition)
        log = self._log_store.logs.get(topic_partition)
        if log is not None and log.topic_id == topic.topic_id:
            return self._flushed(log)
        if log is None and topic_partition not in self._log_store.unavailable:
            self._broker.notice(
                "error",
                "log-missing",
                partition=str(topic_partition),
                what="it stays offline: bring its folder back and restart, or delete the topic",
            )
            return None
        created = self._create(topic_partition, topic.topic_id, self.log_config(topic), is_new=False)
        if isinstance(created, (OSError, LogDirectoryFailure)):
            self._broker.notice("error", "log-not-created", partition=str(topic_partition), error=str(created))
            return None
        return created

    def _flushed(self, log: Log) -> Log | None:
        """A recovered log that counts only what is on the device: put the rest there, before anyone is served."""
        if log.config.flush_messages == 1 and log.unflushed_messages:
            plan = log.flush_plan()
            try:
                plan.run()
            except LogDirectoryFailure as failure:
                self._broker.directory_failed(failure)
                return None
            log.flushed(plan, self._broker.now_ms)
        return log

    def _drop(self, name: str, topic_id: uuid.UUID) -> None:
        broker = self._broker
        for topic_partition in [tp for tp in broker.partitions if tp.topic == name]:
            partition = broker.partitions[topic_partition]
            if partition.topic_id != topic_id:
                continue
            del broker.partitions[topic_partition]
            self.moved.pop(partition, None)
            log, partition.log, partition.is_leader = partition.log, None, False
            broker.partition_deleted(partition)
            if log is not None:
                try:
                    remove = self._log_store.delete(log)
                except LogDirectoryFailure as failure:
                    broker.directory_failed(failure)
                    continue
                broker.jobs.run("delete", remove, self._deleted)

    def _deleted(self, result: Any, error: BaseException | None) -> None:  # noqa: ARG002
        if error is not None:
            self._broker.notice("warning", "files-not-deleted", error=str(error))

    def _apply_configs(self, delta: Delta) -> None:
        everywhere = any(kind == "broker" for kind, _name in delta.configs_changed)
        names = {name for kind, name in delta.configs_changed if kind == "topic"}
        for topic_partition, partition in self._broker.partitions.items():
            if partition.log is not None and (everywhere or topic_partition.topic in names):
                topic = self.image.topics.get(topic_partition.topic)
                if topic is not None:
                    partition.log.update_config(self.log_config(topic))

    def _report(self) -> None:
        self._report_due_ms = None
        moved = list(self.moved)
        self.moved.clear()
        for partition in moved:
            if partition.high_watermark != partition.reported_high_watermark and partition.is_leader:
                partition.reported_high_watermark = partition.high_watermark
                self.membership.note_high_watermark(
                    partition.topic_id,
                    partition.topic_partition.partition,
                    partition.leader_epoch,
                    partition.high_watermark,
                )
        due_ms = self.membership.next_due()
        if due_ms is not None and due_ms <= self._broker.now_ms:
            self._carry_out(self.membership.on_time(self._broker.now_ms))
