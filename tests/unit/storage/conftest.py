"""What the storage tests share: batches made by hand, a seeded random source, and a store on a simulated disk."""

import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import crc32c
import pytest

from yak.config.log_config import LogConfig
from yak.ids import TopicPartition
from yak.ports.disk import Buffer
from yak.protocol.compression import compress
from yak.protocol.record_batch import read_header
from yak.sim.disk import SimDisk
from yak.sim.seeded_random import SeededRandom
from yak.storage.log import Log
from yak.storage.log_store import CheckpointPlan, LogStore
from yak.storage.reader import PendingRead
from yak.storage.segment import Segment

PARTITION = TopicPartition("t", 0)
MARKS_A_STEP = 100


class KeepsNothing:
    """Of what was not synced a power loss leaves nothing: its draws are the lowest that take."""

    def below(self, limit: int) -> int:
        return min(1, limit - 1)


def zigzag(value: int) -> bytes:
    number = (value << 1) ^ (value >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(data: bytes | None) -> bytes:
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def build_batch(
    values: list[bytes] | list[bytes | None],
    *,
    keys: list[bytes] | list[bytes | None] | None = None,
    timestamps: list[int] | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    base_offset: int = 0,
    epoch: int = 0,
    attributes: int = 0,
    codec: int = 0,
) -> bytes:
    """One batch, written out field by field, its records under `codec`; without `keys` they have none."""
    timestamps = timestamps or [1000] * len(values)
    records = b""
    for index, (key, value, timestamp) in enumerate(zip(keys or [None] * len(values), values, timestamps, strict=True)):
        body = b"\0" + zigzag(timestamp - timestamps[0]) + zigzag(index) + field(key) + field(value) + b"\0"
        records += zigzag(len(body)) + body
    records = compress(codec, records)
    attributes |= codec
    rest = (
        struct.pack(
            ">hiqqqhii",
            attributes,
            len(values) - 1,
            timestamps[0],
            max(timestamps),
            producer_id,
            producer_epoch,
            sequence,
            len(values),
        )
        + records
    )
    return struct.pack(">qiibI", base_offset, len(rest) + 9, epoch, 2, crc32c.crc32c(rest)) + rest


def append_batch(log: Log, values: list[Any] | None = None, *, epoch: int = 0, now_ms: int = 0, **fields: Any) -> int:
    """Append one batch of these values; returns its offset."""
    batch = build_batch(values or [b"x" * 20], **fields)
    return log.append(read_header(batch), batch, epoch, now_ms)


def finished(read: Buffer | PendingRead) -> Buffer:
    """What a read returns, after the job of one that needs the device."""
    return read.take(read.plan.run(read.log.disk)) if isinstance(read, PendingRead) else read


def checkpoint_plan(store: LogStore, high_watermarks: Mapping[TopicPartition, int] | None = None) -> CheckpointPlan:
    """A checkpoint of all logs, as the step gathers it. Raises LogDirectoryFailure."""
    store.begin_checkpoint()
    for topic_partition in store.logs:
        store.add_to_checkpoint(topic_partition, (high_watermarks or {}).get(topic_partition, 0))
    return store.checkpoint_plan()


def write_checkpoint(store: LogStore, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
    """Write a checkpoint, as a job and its step do. Raises LogDirectoryFailure."""
    end_checkpoint(store, checkpoint_plan(store, high_watermarks))


def end_checkpoint(store: LogStore, plan: CheckpointPlan) -> None:
    """Run the job of a checkpoint, and what its step does behind it. Raises LogDirectoryFailure."""
    results = plan.run(store.disk)
    store.checkpointed(plan, results)
    for result in results:
        if result.failure is not None:
            raise result.failure
    for removed in store.remove_marks(MARKS_A_STEP):
        removed.run(store.disk)


def lower(store: LogStore, log: Log) -> None:
    """Write the lowered recovery point of a log."""
    directory = store.directory(log.directory)
    plan = directory.lowering_plan([(log.topic_partition, log.recovery_point)])
    plan.run(store.disk)
    directory.lowered(plan)


def set_cluster_id(store: LogStore, cluster_id: str) -> None:
    """Write the cluster's id."""
    plan = store.cluster_id_plan(cluster_id)
    store.cluster_id_written(plan, plan.run(store.disk))


def retain(log: Log, now_ms: int, high_watermark: int) -> list[Segment]:
    """Remove the segments that retention removes, one by one as the broker does; returns them."""
    removed: list[Segment] = []
    while (segment := log.expired_segment(now_ms, high_watermark)) is not None:
        log.remove_segments([segment], now_ms).run(log.disk)
        removed.append(segment)
    return removed


class Bench:
    """One store on one simulated disk, and what tests do to it."""

    partition = PARTITION
    build = staticmethod(build_batch)

    KEEPS_NOTHING = KeepsNothing()

    def __init__(self, **config: Any) -> None:
        self.disk = SimDisk()
        self.random_source = SeededRandom(0)
        self.config = LogConfig(**config)
        self.topic_id = uuid.UUID(int=7)
        self.store = self.open()
        self.log: Log = self.store.create(PARTITION, self.topic_id, self.config)

    def open(self, now_ms: int = 0, **arguments: Any) -> LogStore:
        return LogStore.open(
            self.disk, ["/data"], 1, self.random_source.uuid4, now_ms, lambda _topic: self.config, **arguments
        )

    def append(self, values: list[Any] | None = None, *, epoch: int = 0, now_ms: int = 0, **fields: Any) -> int:
        return append_batch(self.log, values, epoch=epoch, now_ms=now_ms, **fields)

    def flush(self) -> None:
        plan = self.log.flush_plan()
        self.log.flushed(plan, plan.run(self.disk))

    def truncate(self, offset: int) -> int:
        """Truncate the log as a follower does: the lowered recovery point is synced before, the truncation right after."""
        self._lower(self.log.recovery_point_after_truncation(offset))
        end_offset = self.log.truncate_to(offset)
        self.log.sync_truncation()
        return end_offset

    def truncate_fully(self, offset: int) -> None:
        """Likewise, a full resync: no record is left."""
        self._lower(min(offset, self.log.log_start_offset))
        self.log.truncate_fully_and_start_at(offset, 0)
        self.log.sync_truncation()

    def _lower(self, offset: int) -> None:
        if offset < self.log.recovery_point:
            self.log.lower_recovery_point(offset)
            lower(self.store, self.log)

    def reopen(self, *, clean: bool = False, crash: bool = False, checkpoint: bool = True, now_ms: int = 0) -> Log:
        """Stop in one of the three ways, start again; the log is the same partition's."""
        if clean:
            self.store.close_plan(3).run(self.disk)
        elif checkpoint:
            write_checkpoint(self.store)
        if crash:
            self.disk.crash(self.random_source)
        else:
            self.disk.kill()
        self.disk.reads.clear()
        self.store = self.open(now_ms)
        self.log = self.store.logs[PARTITION]
        return self.log

    def read_all(self, max_bytes: int = 500) -> bytes:
        """The whole log, as a consumer that fetches small answers gets it."""
        log, offset, parts = self.log, self.log.log_start_offset, []
        while offset < log.log_end_offset:
            data: Any = log.read(offset, max_bytes, log.log_end_offset, at_least_one=True)
            data = finished(data)
            assert data, f"nothing at {offset}"
            parts.append(bytes(data))
            position = 0
            while position < len(data):
                header = read_header(data, position)
                offset = header.next_offset
                position += header.size_bytes
            assert position == len(data), "the read ends at a batch boundary"
        return b"".join(parts)

    def files(self) -> list[str]:
        return self.disk.names(f"/data/{PARTITION}")

    def content(self, name: str) -> bytes:
        return self.disk.read_file(f"/data/{PARTITION}/{name}")


@pytest.fixture
def make_bench() -> Callable[..., Bench]:
    return Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def build() -> Callable[..., bytes]:
    return build_batch
