"""How metadata records are applied on this broker (Kafka's MetadataLoader and BrokerMetadataPublisher).

Records of the metadata log are durable here before anything acts on them (persist before act). First a job creates the
logs of new partitions; then the records are appended to the image log and synced in another job; then the image is
replaced and partitions take their new state. One round of records is under way at a time, in order. A round and the
work of one turn are bounded, so that requests are served between the turns of a large change: one turn replays a few
records, and one brings a few partitions to the new image.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from yak.cluster.image import ChainBroken, Delta, Image
from yak.cluster.image_log import AppendSync, Compaction, ImageLog
from yak.cluster.metadata_delta import MetadataDelta
from yak.cluster.payload import BadRecord
from yak.core.context import Context
from yak.core.events import DisksLost, Notice
from yak.errors import LogDirectoryFailure
from yak.partitions.local_replicas import LocalReplicas
from yak.partitions.offline_replicas import OfflineReplicas
from yak.ports.disk import Disk
from yak.ports.metadata_store import TailedRecord
from yak.replication.log_failures import CLUSTER_ID, METADATA_LOG, LogFailures
from yak.storage.log_creation import Created, CreationResult, LogCreation, NewLog
from yak.storage.log_directory import ClusterIdPlan
from yak.storage.log_store import LogStore

PARTITIONS_A_SLICE = 50
"""Partitions whose records one turn replays, or that it opens, configures or drops: about 1 ms."""
ROUND_WEIGHT_MAX = 400
"""Weight at which a round of records ends: one for each record and one for each changed partition."""


@dataclass(slots=True, frozen=True)
class _Step:
    """Records that are not acted on yet: the image and delta they produce, and the logs they need."""

    image: Image
    delta: Delta
    replacing: list[NewLog]
    """Logs to create in folders that logs of deleted topics still occupy."""
    created: Created


@dataclass(slots=True, frozen=True)
class _PersistPlan:
    """A plan to make a round of records durable, and the cluster's id with the first round."""

    sync: AppendSync
    cluster_id: ClusterIdPlan

    def run(self, disk: Disk) -> list[LogDirectoryFailure]:
        """Returns the failures to write the id. Raises OSError when the records cannot be synced."""
        self.sync.run(disk)
        return self.cluster_id.run(disk)


class MetadataPublisher(Protocol):
    """Notifies the other parts of the broker."""

    def configs_changed(self) -> None:
        """Configs of brokers or topics changed; the logs do not have theirs yet."""

    def image_changed(self, before: Image, delta: Delta) -> None:
        """All partitions match the image in force."""

    def metadata_log_failed(self, error: BaseException) -> None:
        """No more records are applied until a restart."""


class MetadataLoader:
    """The records that are not applied yet, and the round under way."""

    def __init__(
        self,
        context: Context,
        image_log: ImageLog,
        log_store: LogStore,
        local_replicas: LocalReplicas,
        offline_replicas: OfflineReplicas,
        log_failures: LogFailures,
        publisher: MetadataPublisher,
    ) -> None:
        self._context, self._image_log, self._log_store = context, image_log, log_store
        self._local_replicas, self._offline_replicas = local_replicas, offline_replicas
        self._log_failures = log_failures
        self._publisher = publisher
        self._queue: deque[TailedRecord] = deque()
        self._busy = False
        self._slices: tuple[Iterator[None], Callable[[], None]] | None = None
        """The remaining slices of a round, one for each turn, and the callback behind the last slice."""
        self._is_acting = False
        """Whether they act on records that are on the disk."""
        self._round_weight = 0
        """The weight of the round under way."""
        self.partitions_a_slice = PARTITIONS_A_SLICE
        """The simulator lowers it, because its topics are small."""
        self.on_image: Callable[[Image, Image, Delta], None] | None = None
        """Called with (previous, new, delta) when an image is acted on. Must only take note; an exception in it is
        logged (`observer-failed`)."""

    def add(self, records: Sequence[TailedRecord]) -> None:
        """Persist records that continue the hash chain, then act on them."""
        self._queue.extend(records)
        self._persist_next()

    def _persist_next(self) -> None:
        if self._busy or not self._queue:
            return
        self._busy = True
        records, delta = self._next_round(), MetadataDelta(self._context.image)
        self._begin_slices(self._replay(records, delta), partial(self._replayed, records, delta), is_acting=False)

    def _replay(self, records: Sequence[TailedRecord], delta: MetadataDelta) -> Iterator[None]:
        weight = 0
        for record in records:
            if weight >= self.partitions_a_slice:
                weight = 0
                yield
            delta.replay(record)
            weight += _weight(record)
        if self._is_heavy_round():
            yield

    def _replayed(self, records: Sequence[TailedRecord], replayed: MetadataDelta) -> None:
        image, delta = replayed.apply()
        fresh, replacing = self._local_replicas.missing_logs(records, image, delta)
        if not fresh:
            self._persist(records, _Step(image, delta, replacing, {}))
            return

        # Logs first: every partition that the local metadata names has a folder, so a folder missing at start was lost.
        self._create_logs(fresh, lambda created: self._persist(records, _Step(image, delta, replacing, created)))

    def _create_logs(self, wanted: Sequence[NewLog], then: Callable[[Created], None]) -> None:
        """Create logs in one job, planned and added to the store in slices; `then` gets each log or its failure."""
        size = self.partitions_a_slice
        plans: list[LogCreation] = []
        created: Created = {}

        def plan() -> Iterator[None]:
            for first in range(0, len(wanted), size):
                if first:
                    yield
                slice_plan, decided = self._log_store.creation_plan(wanted[first : first + size])
                plans.append(slice_plan)
                created.update(decided)

        def adopt(result: CreationResult) -> Iterator[None]:
            for slice_plan in plans:
                if created:
                    yield
                created.update(self._log_store.adopt_created(slice_plan, result))

        def planned() -> None:
            self._offline_replicas.run_creation(plans[-1].with_logs_of(plans[:-1]), adopted)

        def adopted(result: CreationResult) -> None:
            self._begin_slices(adopt(result), lambda: then(created), is_acting=False)

        self._begin_slices(plan(), planned, is_acting=False)

    def _next_round(self) -> list[TailedRecord]:
        records, self._round_weight = [], 0
        while self._queue and self._round_weight < ROUND_WEIGHT_MAX:
            record = self._queue.popleft()
            records.append(record)
            self._round_weight += _weight(record)
        return records

    def _is_heavy_round(self) -> bool:
        """Whether the work on the whole round, or on the whole image, needs a turn of its own."""
        return self._round_weight > self.partitions_a_slice // 4

    def _persist(self, records: Sequence[TailedRecord], step: _Step) -> None:
        try:
            sync = self._image_log.append(records)
        except OSError as error:
            if self._log_failures.write_failed(METADATA_LOG, LogDirectoryFailure(self._image_log.directory, error)):
                self._context.after((self, "persist"), METADATA_LOG.retry_ms, partial(self._persist, records, step))
            else:
                self._fail(error)
            return
        self._log_failures.write_succeeded(self._image_log.directory)
        marks = self._log_store.cluster_id_plan(step.image.cluster_id)

        def done(failures: Any, error: BaseException | None) -> None:
            if error is not None:
                self._fail(error)
                return
            self._log_store.cluster_id_written(marks, failures)
            for failure in failures:
                self._log_failures.write_failed(CLUSTER_ID, failure)
            self._replace(step)

        self._context.jobs.run("image", _PersistPlan(sync, marks), done)

    def _replace(self, step: _Step) -> None:
        """Create the logs of topics that were deleted and created again, after the old logs have left the folders."""

        def dropped() -> None:
            self._local_replicas.make_room(step.replacing)
            self._create_logs(step.replacing, lambda created: self._act(step, step.created | created))

        if step.replacing:
            local_replicas = self._local_replicas
            removed = local_replicas.drop_removed(self._context.image, step.image, step.delta)
            self._begin_slices(self._sliced(removed), dropped)
        else:
            self._act(step, step.created)

    def _begin_slices(self, slices: Iterator[None], then: Callable[[], None], *, is_acting: bool = True) -> None:
        """Run the first slice at once, each other slice in a later turn, and `then` behind the last.

        `is_acting`: the records are on the disk, and a stop must not leave the slices out.
        """
        self._slices, self._is_acting = (slices, then), is_acting
        self._run_slice()

    def _run_slice(self) -> None:
        if self._slices is None:
            return
        self._context.timers.end_round()
        slices, then = self._slices
        try:
            next(slices)
        except StopIteration:
            self._slices = None
            then()
        except (BadRecord, ChainBroken) as error:
            self._slices = None
            self._fail(error)
        else:
            self._context.after((self, "slice"), 1, self._run_slice)

    def _sliced(self, partitions: Iterator[None]) -> Iterator[None]:
        """Divide an iteration that yields before each partition into slices."""
        in_slice = 0
        for _ in partitions:
            if in_slice == self.partitions_a_slice:
                in_slice = 0
                yield
            in_slice += 1
        if self._is_heavy_round():
            yield

    def finish_slices(self) -> None:
        """Apply the rest of the image before a stop, or the next start takes logs of deleted topics for strays.

        No other round begins. Records that are not on the disk come again after the next start.
        """
        self._queue.clear()
        self._context.timers.disarm((self, "persist"))
        if self._slices is not None:
            slices, _then = self._slices
            self._slices = None
            if self._is_acting:
                for _ in slices:
                    pass

    def _fail(self, error: BaseException) -> None:
        """Stop acting on metadata until a restart, because the local metadata log failed. The data path continues.

        A broker beside others halts if its disk failed: with its old image it would unfence no broker as the controller, and
        take no replica into an ISR as a leader.
        """
        self._context.notice("error", "metadata-log-failed", error=str(error))
        if isinstance(error, OSError) and len(self._context.image.active_brokers()) > 1:
            self._context.emit(DisksLost(self._image_log.directory, str(error)))
        self._publisher.metadata_log_failed(error)

    def _act(self, step: _Step, created: Created) -> None:
        """Put an image in force: first the partitions, in slices, then the parts that need the whole image."""
        before, self._context.image = self._context.image, step.image
        slices = self._sliced(self._act_on_partitions(before, step, created))
        self._begin_slices(slices, partial(self._acted, before, step))

    def _act_on_partitions(self, before: Image, step: _Step, created: Created) -> Iterator[None]:
        image, delta = step.image, step.delta
        local_replicas = self._local_replicas
        yield from local_replicas.drop_removed(before, image, delta)
        if delta.changes_logs:
            # The broker's first: the cleaner schedules a log by them. Then the logs', which may have decided the new roles.
            self._publisher.configs_changed()
            yield from local_replicas.apply_configs(delta)
        yield from local_replicas.apply_roles(image, delta, created)

    def _acted(self, before: Image, step: _Step) -> None:
        """All partitions match the image: notify the parts that need the whole image, and begin the next round."""
        self._local_replicas.release_slice()
        self._publisher.image_changed(before, step.delta)
        self._show_image(before, step.image, step.delta)
        compact = self._image_log.compaction(step.image)
        if compact is not None:
            self._context.jobs.run("image", compact, partial(self._compacted, compact))
        self._busy = False
        if self._queue:
            # not in this step: a change of brokers costs time for each partition
            self._context.after((self, "next"), 1, self._persist_next)

    def _show_image(self, before: Image, image: Image, delta: Delta) -> None:
        """Call `on_image`. An exception there is a bug of the observer: it is logged, and the broker continues."""
        if self.on_image is None:
            return
        try:
            self.on_image(before, image, delta)
        except Exception as error:  # noqa: BLE001 - the observer changes no replicated state
            self._context.emit(Notice("error", "observer-failed", {"observed": "image"}, error=error))

    def _compacted(self, plan: Compaction, _result: object, error: BaseException | None) -> None:
        self._image_log.compacted(plan, error)
        if error is not None:
            self._context.notice("warning", "metadata-log-not-compacted", error=str(error))


def _weight(record: TailedRecord) -> int:
    """One for the record, and one for each partition that it names."""
    return 1 + sum(len(value) for value in record.payload.values() if isinstance(value, list))
