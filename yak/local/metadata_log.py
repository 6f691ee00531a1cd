"""The metadata records for people: read from Redis, or from the copy in a broker's data directory.

Reading changes nothing: an incomplete tail in a broker's copy is skipped, not truncated.
"""

import itertools
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from yak.cluster.image import ChainBroken, Image
from yak.cluster.image_log import read_entries
from yak.cluster.payload import BadRecord
from yak.errors import Unreachable, YakError
from yak.ids import MetadataOffset
from yak.local.layout import METADATA_FOLDER
from yak.ports.metadata_store import TailedRecord
from yak.security.redis_url import with_password, without_password

LOG_KEY = "{y}:log"
SNAPSHOT_KEY = "{y}:snapshot"
SNAPSHOT_FILE = "snapshot"
PAGE_RECORDS = 1000
BLOCK_MS = 500


@dataclass(slots=True)
class RedisSource:
    """The metadata store itself. `tries` is the advice when it does not answer.

    The methods of all sources raise YakError when the records cannot be read.
    """

    url: str
    timeout_s: float = 3.0
    tries: tuple[str, ...] = (
        "yak metadata log --redis-url redis://HOST:PORT/0",
        "yak metadata log --data-dir DIR   read a broker's copy",
    )

    @property
    def name(self) -> str:
        """The display name: the address without a password."""
        return without_password(self.url)

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """A connection that answered a ping. Raises Unreachable (`log-source`), also when it fails in the body."""
        import redis

        try:
            client = redis.Redis.from_url(
                with_password(self.url),
                decode_responses=True,
                socket_connect_timeout=self.timeout_s,
                socket_timeout=self.timeout_s,
            )
            client.ping()
        except (redis.RedisError, OSError, ValueError) as error:
            raise Unreachable(
                "log-source",
                f"no metadata store answered at {self.name}",
                why=str(error),
                try_=self.tries,
            ) from None
        try:
            with client:
                yield client
        except redis.RedisError as error:
            what = f"the metadata store at {self.name} failed"
            raise Unreachable("log-source", what, why=str(error), try_=self.tries) from None

    def base(self) -> TailedRecord | None:
        """The snapshot that replaces all records up to its offset, from the trimming of the stream; None without one."""
        with self.connect() as client:
            found = client.hgetall(SNAPSHOT_KEY)
        return TailedRecord.from_snapshot(found) if found else None

    def records(self, after: MetadataOffset = 0) -> Iterator[TailedRecord]:
        """The present records after an offset, in order; the first ones may be gone."""
        with self.connect() as client:
            last = f"{after}-0"
            while page := client.xrange(LOG_KEY, min=f"({last}", count=PAGE_RECORDS):
                yield from (TailedRecord.from_stream(*entry) for entry in page)
                last = page[-1][0]

    def follow(self, after: MetadataOffset) -> Iterator[TailedRecord | None]:
        """Records as they are written; None about twice a second while there are none."""
        with self.connect() as client:
            while True:
                found = client.xread({LOG_KEY: f"{after}-0"}, count=PAGE_RECORDS, block=BLOCK_MS)
                if not found:
                    yield None
                    continue
                for entry in found[0][1]:
                    record = TailedRecord.from_stream(*entry)
                    after = record.offset
                    yield record


@dataclass(slots=True)
class CopySource:
    """A broker's copy of the records; `directory` is the broker's data directory."""

    directory: str

    @property
    def name(self) -> str:
        """The folder of the copy."""
        return os.path.join(self.directory, METADATA_FOLDER)

    def base(self) -> TailedRecord | None:
        """The snapshot that the copy was compacted to."""
        if SNAPSHOT_FILE not in self._files():
            return None
        found = self._read(SNAPSHOT_FILE)
        return found[0] if found else None

    def records(self, after: MetadataOffset = 0) -> Iterator[TailedRecord]:
        for each in self._files():
            for record in self._read(each) if each != SNAPSHOT_FILE else ():
                if record.offset > after:
                    after = record.offset
                    yield record

    def _files(self) -> list[str]:
        try:
            return sorted(each for each in os.listdir(self.name) if each == SNAPSHOT_FILE or each.endswith(".log"))
        except OSError as error:
            raise YakError(
                "log-source",
                f"{self.name} cannot be read",
                why=str(error.strerror).lower(),
                try_=(f"ls {self.directory}          a broker's data directory has it", "yak metadata log"),
            ) from None

    def _read(self, file_name: str) -> list[TailedRecord]:
        try:
            with open(os.path.join(self.name, file_name), "rb") as file:
                return read_entries(file.read())
        except FileNotFoundError:  # compacted away meanwhile
            return []

    def follow(self, after: MetadataOffset) -> Iterator[TailedRecord | None]:
        """Reads the files twice a second."""
        while True:
            for record in self.records(after):
                after = record.offset
                yield record
            yield None
            time.sleep(BLOCK_MS / 1000)


RecordSource: TypeAlias = RedisSource | CopySource


def newest_copy(directories: Iterable[str]) -> CopySource:
    """The copy of the broker that has the newest record. Raises YakError (`log-source`) when there is none."""
    sources = [CopySource(directory) for directory in directories]
    readable = [source for source in sources if os.path.isdir(source.name)]
    return max(readable or sources, key=_last_offset)


def _last_offset(source: CopySource) -> MetadataOffset:
    base = source.base()
    return max((record.offset for record in source.records()), default=base.offset if base is not None else 0)


def fold(source: RecordSource, *, offset: MetadataOffset | None = None, timestamp_ms: int | None = None) -> Image:
    """The cluster's image as of an offset or a time, that record included; else as of the last record.

    Raises YakError: `log-trimmed` when older records are gone, `log-broken` when the hash chain or a record is invalid.
    """

    def is_later(record: TailedRecord) -> bool:
        return (offset is not None and record.offset > offset) or (
            timestamp_ms is not None and record.timestamp_ms > timestamp_ms
        )

    records = list(source.records())
    base = source.base()
    if records and records[0].offset == 1:
        base = None
    if base is not None:
        if is_later(base):
            raise _trimmed(base.offset)
        records = [base, *(record for record in records if record.offset > base.offset)]
    elif records and records[0].offset != 1:
        raise _trimmed(records[0].offset)
    try:
        return Image().apply_all(itertools.takewhile(lambda record: not is_later(record), records))[0]
    except (ChainBroken, BadRecord) as error:
        raise YakError(
            "log-broken",
            "the metadata records do not fit together",
            why=str(error),
            try_=("yak cluster",),
        ) from None


def _trimmed(first: MetadataOffset) -> YakError:
    return YakError(
        "log-trimmed",
        f"the state before record {first} is gone",
        why="older metadata records were folded into a snapshot",
        try_=(f"yak metadata snapshot --at {first}",),
    )
