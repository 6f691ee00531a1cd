"""Encodes and decodes the four requests that a reader needs: ApiVersions, Metadata, ListOffsets, Fetch.

The code is written by hand for one version each. Executors start often, and importing a codec for all of Kafka takes as
long as a small read. Apache Kafka 2.3 and later support these versions. They use topic names instead of ids, and no
tagged fields. Layouts: Kafka's `clients/src/main/resources/common/message/*.json`.

All decoders raise `Malformed` for bytes that end early or hold impossible values.
"""

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

Buffer = bytes | bytearray | memoryview

FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
API_VERSIONS: Final = 18
VERSIONS: Final = {FETCH: 11, LIST_OFFSETS: 5, METADATA: 7, API_VERSIONS: 0}

EARLIEST: Final = -2
LATEST: Final = -1
NO_EPOCH: Final = -1

THROTTLED: Final = 89
"""Kafka's THROTTLING_QUOTA_EXCEEDED, for a response that a quota left empty."""

_CLIENT: Final = -1  # the replica id of a consumer
_ENTRIES_MAX: Final = 1 << 20


class Malformed(Exception):
    """A response that ends early, or holds impossible values."""


class AbortedRange(NamedTuple):
    """An aborted transaction: records of `producer_id` from `first_offset` to its abort marker are not delivered."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """The response for the one requested partition; `records` lie at [start, end) of the response."""

    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedRange, ...]
    records_start: int
    records_end: int


@dataclass(frozen=True, slots=True)
class Leader:
    """A partition's leader, as one broker knows it; `address` is None when it knows no leader."""

    error_code: int
    epoch: int
    address: tuple[str, int] | None


class WireReader:
    """Reads Kafka's primitive types from bytes, one after another."""

    def __init__(self, data: Buffer) -> None:
        self.data = memoryview(data)
        self.position = 0

    def number(self, layout: str) -> int:
        """One integer in a `struct` format."""
        try:
            (value,) = struct.unpack_from(">" + layout, self.data, self.position)
        except struct.error:
            raise Malformed("it ends early") from None
        self.position += struct.calcsize(">" + layout)
        return int(value)

    def count(self) -> int:
        """The length of an array; a null one counts as empty."""
        number = self.number("i")
        if not -1 <= number <= _ENTRIES_MAX:
            raise Malformed(f"an array of {number} entries")
        return max(number, 0)

    def string(self) -> str | None:
        """A nullable string."""
        size = self.number("h")
        return None if size < 0 else str(self._bytes(size), "utf-8", "replace")

    def skip(self, size: int) -> None:
        self._bytes(size)

    def _bytes(self, size: int) -> memoryview:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise Malformed("it ends early")
        piece = self.data[self.position : end]
        self.position = end
        return piece


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def frame(api_key: int, correlation_id: int, client_id: bytes, body: bytes) -> bytes:
    """A whole request: length, header version 1, body."""
    head = struct.pack(">hhih", api_key, VERSIONS[api_key], correlation_id, len(client_id)) + client_id
    return struct.pack(">i", len(head) + len(body)) + head + body


def read_api_versions(data: Buffer) -> dict[int, tuple[int, int]]:
    """Lowest and highest supported version by API key."""
    reading = WireReader(data)
    error_code = reading.number("h")
    if error_code:
        raise Malformed(f"ApiVersions answers error {error_code}")
    return {reading.number("h"): (reading.number("h"), reading.number("h")) for _ in range(reading.count())}


def metadata_request(topic: str) -> bytes:
    """A Metadata request for `topic`, without topic auto-creation."""
    return struct.pack(">i", 1) + _string(topic) + b"\x00"


def read_metadata(data: Buffer, topic: str, partition: int, unknown: int) -> Leader:
    """The leader of `partition`; error code `unknown` when the response does not contain the partition."""
    reading = WireReader(data)
    reading.skip(4)
    brokers: dict[int, tuple[str, int]] = {}
    for _ in range(reading.count()):
        node_id, host, port = reading.number("i"), reading.string(), reading.number("i")
        reading.string()
        brokers[node_id] = (host or "", port)
    reading.string()
    reading.skip(4)
    found = Leader(unknown, NO_EPOCH, None)
    for _ in range(reading.count()):
        topic_error, name = reading.number("h"), reading.string()
        reading.skip(1)
        if name == topic and topic_error:
            found = Leader(topic_error, NO_EPOCH, None)
        for _ in range(reading.count()):
            error_code, index = reading.number("h"), reading.number("i")
            leader, epoch = reading.number("i"), reading.number("i")
            for _ in range(3):
                reading.skip(4 * reading.count())
            if name == topic and index == partition:
                found = Leader(topic_error or error_code, epoch, brokers.get(leader))
    return found


def list_offsets_request(topic: str, partition: int, epoch: int, timestamp_ms: int) -> bytes:
    """A ListOffsets request for a time, EARLIEST, or LATEST (the high watermark: isolation is read_uncommitted)."""
    entry = struct.pack(">iiiq", 1, partition, epoch, timestamp_ms)
    return struct.pack(">ibi", _CLIENT, 0, 1) + _string(topic) + entry


def read_list_offsets(data: Buffer) -> tuple[int, int]:
    """(error code, offset) of the one requested partition."""
    reading = WireReader(data)
    reading.skip(4)
    if reading.count() != 1:
        raise Malformed("ListOffsets answers for another topic")
    reading.string()
    if reading.count() != 1:
        raise Malformed("ListOffsets answers for other partitions")
    reading.skip(4)
    error_code = reading.number("h")
    reading.skip(8)
    return error_code, reading.number("q")


def fetch_request(
    topic: str, partition: int, epoch: int, offset: int, *, fetch_bytes: int, wait_ms: int, is_committed: bool
) -> bytes:
    """A Fetch request for records from `offset` on: about `fetch_bytes`, or none after `wait_ms`."""
    head = struct.pack(">iiiibiii", _CLIENT, wait_ms, 1, fetch_bytes, is_committed, 0, -1, 1)
    entry = struct.pack(">iiiqqi", 1, partition, epoch, offset, -1, fetch_bytes)
    return head + _string(topic) + entry + struct.pack(">i", 0) + _string("")


def read_fetch(data: Buffer) -> FetchAnswer:
    """The head of a Fetch response; record bytes are not decoded.

    The empty response to a throttled client (KIP-219) has the error code `THROTTLED`.
    """
    reading = WireReader(data)
    throttle_ms = reading.number("i")
    error_code = reading.number("h")
    reading.skip(4)
    if error_code:
        return FetchAnswer(error_code, -1, -1, -1, (), 0, 0)
    topics = reading.count()
    if topics == 0 and throttle_ms > 0:
        return FetchAnswer(THROTTLED, -1, -1, -1, (), 0, 0)
    if topics != 1:
        raise Malformed("Fetch answers for another topic")
    reading.string()
    if reading.count() != 1:
        raise Malformed("Fetch answers for other partitions")
    reading.skip(4)
    error_code = reading.number("h")
    high_watermark, stable, log_start = reading.number("q"), reading.number("q"), reading.number("q")
    aborted = tuple(AbortedRange(reading.number("q"), reading.number("q")) for _ in range(reading.count()))
    reading.skip(4)
    size = max(reading.number("i"), 0)
    start = reading.position
    reading.skip(size)
    return FetchAnswer(error_code, high_watermark, stable, log_start, aborted, start, start + size)
