"""Fetches from the leader of a partition: finds the leader, follows leader changes, and fails within a bounded time.

One request may be outstanding: `ask` sends it and `answer` waits for it. In between the caller decodes the previous
response. A response has one of four outcomes: records (perhaps none), missing offsets (`OffsetsMissing`), a transient
error (retried here until there was no progress for `timeout_ms`), or a permanent error (`NotReadable`).
"""

import contextlib
import random
import ssl
import time
from dataclasses import dataclass
from typing import Final, NoReturn, Self

from yak.client.reach import split_address
from yak.spark.columnar.connection import ANSWER_BYTES_MAX, Connecting, Connection
from yak.spark.columnar.schema import READ_COMMITTED, NotReadable, OffsetRange, ReadSettings, UnsupportedSetting
from yak.spark.columnar.wire import (
    EARLIEST,
    FETCH,
    LATEST,
    LIST_OFFSETS,
    METADATA,
    NO_EPOCH,
    THROTTLED,
    FetchAnswer,
    Leader,
    Malformed,
    fetch_request,
    list_offsets_request,
    metadata_request,
    read_fetch,
    read_list_offsets,
    read_metadata,
)

GONE_PATIENCE_S: Final = 10.0
"""How long an offset must be missing before `OffsetsMissing`: brokers learn topics and high watermarks with a delay."""
WAIT_MS: Final = 500
"""`max_wait_ms` of a fetch: how long a broker delays an empty response."""
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.05, 1.0
_CLOSED_IN_HANDSHAKE: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""A broker that stops, or a proxy before one that is down: another broker may answer."""

_OFFSET_OUT_OF_RANGE: Final = 1
_UNKNOWN_TOPIC: Final = 3
_RETRIED: Final = {
    -1: "the broker reported an unexpected error",
    _UNKNOWN_TOPIC: "the topic or partition is unknown",
    5: "there is no leader",
    6: "the leader moved",
    7: "the broker was too slow",
    8: "the leader cannot be reached",
    9: "the replica is not available",
    13: "the broker lost its connection",
    56: "the leader's disk failed",
    72: "the broker's listener is not known",
    74: "the leader moved",
    75: "the broker does not know yet that it leads",
    78: "the new leader does not yet know the high watermark",
}
_REFUSED: Final = {
    2: "the broker found its own records damaged",
    17: "the topic's name is not valid",
    29: "reading the topic is not allowed",
    35: "the broker does not speak the protocol versions of this reader",
    76: "the broker cannot give this compression to this reader",
}


class OffsetsMissing(Exception):
    """Requested offsets do not exist. `earliest` is the offset to go on with, None when no record is left to read."""

    def __init__(self, why: str, earliest: int | None) -> None:
        super().__init__(why)
        self.why = why
        self.earliest = earliest


@dataclass(frozen=True, slots=True)
class Answer:
    """A fetch response without an error; `records` are its record bytes."""

    head: FetchAnswer
    records: memoryview


class PartitionFetch:
    """A context manager that reads one partition once."""

    def __init__(self, wanted: OffsetRange, settings: ReadSettings, connecting: Connecting) -> None:
        self._wanted = wanted
        self._settings = settings
        self._connecting = connecting
        self._name = f"{wanted.topic}-{wanted.partition}"
        self._fetch_bytes = connecting.fetch_bytes
        self._bootstrap = _addresses(settings.bootstrap)
        self._connection: Connection | None = None
        self._epoch = NO_EPOCH
        self._is_requested = False
        self._offset = wanted.start
        self._pause_s = _PAUSE_S_MIN
        self._gone_since: float | None = None
        self._deadline = 0.0
        self.progressed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._disconnect()

    def progressed(self) -> None:
        """Reset the timeout and the retry backoff after progress."""
        self._deadline = time.monotonic() + self._settings.timeout_ms / 1000.0
        self._gone_since = None
        self._pause_s = _PAUSE_S_MIN

    def ask(self, offset: int) -> None:
        """Request the records from `offset` on. After a lost connection, `answer` sends the request again."""
        self._offset = offset
        self._is_requested = False
        if self._connection is not None:
            try:
                self._send(self._connection)
            except OSError:
                self._disconnect()

    def answer(self) -> Answer:
        """The response to the last request. Raises OffsetsMissing, NotReadable, UnsupportedSetting."""
        while True:
            try:
                answer = self._try()
                error_code = answer.head.error_code
                if not error_code:
                    return answer
                if error_code == THROTTLED:
                    self.progressed()  # the broker reads the next request when the time is over
                elif error_code == _OFFSET_OUT_OF_RANGE:
                    self._check_range()
                else:
                    self._rejected(error_code)
            except Malformed as error:
                raise NotReadable(f"a broker's answer about {self._name} makes no sense", str(error)) from None
            except OSError as error:
                self._disconnect()
                self._retry(f"no answer: {error}")

    def nothing_yet(self, why: str, *, is_gone: bool) -> None:
        """Pause, and repeat a request without records; `is_gone` if the offset seems not to exist."""
        self._note_gone(why, is_gone=is_gone)
        if time.monotonic() > self._deadline:
            self._give_up(why)
        time.sleep(_PAUSE_S_MIN)
        self.ask(self._offset)

    def need(self, size_bytes: int) -> None:
        """Request again with a fetch size of at least `size_bytes`, because a batch was larger than a response."""
        if size_bytes > ANSWER_BYTES_MAX // 2 or size_bytes <= self._fetch_bytes:
            why = f"a batch of {size_bytes} bytes came neither whole nor alone"
            raise NotReadable(f"{self._name} cannot be read at offset {self._offset}", why)
        self._fetch_bytes = size_bytes
        self.ask(self._offset)

    def _rejected(self, error_code: int) -> None:
        """Handle an error code: pause and look up the leader again, or raise."""
        if error_code not in _RETRIED:
            why = _REFUSED.get(error_code, "the broker gives no other reason")
            raise NotReadable(f"{self._name} cannot be read (Kafka error {error_code})", why)
        self._disconnect()
        self._retry(_RETRIED[error_code], is_gone=error_code == _UNKNOWN_TOPIC)

    # ------------------------------------------------------------------------------------------------------ one attempt

    def _try(self) -> Answer:
        connection = self._connection
        if connection is None:
            found = self._find_leader()
            if found.address is None:
                return Answer(FetchAnswer(found.error_code or 5, -1, -1, -1, (), 0, 0), memoryview(b""))
            connection = self._connection = Connection(found.address, self._connecting)
            self._epoch = found.epoch
        if not self._is_requested:
            self._send(connection)
        body = connection.receive()
        self._is_requested = False
        head = read_fetch(body)
        return Answer(head, body[head.records_start : head.records_end])

    def _send(self, connection: Connection) -> None:
        wanted = self._wanted
        is_committed = self._settings.isolation == READ_COMMITTED
        body = fetch_request(
            wanted.topic,
            wanted.partition,
            self._epoch,
            self._offset,
            fetch_bytes=self._fetch_bytes,
            wait_ms=WAIT_MS,
            is_committed=is_committed,
        )
        connection.send(FETCH, body)
        self._is_requested = True

    def _find_leader(self) -> Leader:
        """The leader, from the first bootstrap broker that answers, in random order. Raises OSError when none does."""
        last: OSError | None = None
        for address in random.sample(self._bootstrap, len(self._bootstrap)):
            try:
                with Connection(address, self._connecting) as connection:
                    data = connection.ask(METADATA, metadata_request(self._wanted.topic))
            except OSError as error:
                if isinstance(error, ssl.SSLError) and not isinstance(error, _CLOSED_IN_HANDSHAKE):
                    why = str(error.reason or error)
                    raise NotReadable(f"no TLS connection to {address[0]}:{address[1]}", why) from None
                last = OSError(f"{address[0]}:{address[1]}: {error}")
                continue
            return read_metadata(data, self._wanted.topic, self._wanted.partition, _UNKNOWN_TOPIC)
        assert last is not None, "there is at least one address"
        raise last

    def _check_range(self) -> None:
        """Handle OFFSET_OUT_OF_RANGE: raise Gone if the offset is below the log start, or stays above the log end."""
        assert self._connection is not None, "it just answered"
        bounds = []
        for end in (EARLIEST, LATEST):
            request = list_offsets_request(self._wanted.topic, self._wanted.partition, self._epoch, end)
            error_code, offset = read_list_offsets(self._connection.ask(LIST_OFFSETS, request))
            if error_code:
                return self._rejected(error_code)
            bounds.append(offset)
        earliest, latest = bounds
        if self._offset < earliest:
            raise OffsetsMissing(f"the log begins at offset {earliest} now", earliest)
        if self._offset > latest:
            return self._retry(f"the log ends at offset {latest}", is_gone=True)
        return self._retry("the offset was out of range")

    # ---------------------------------------------------------------------------------------------- errors and timeouts

    def _note_gone(self, why: str, *, is_gone: bool) -> None:
        """Raise OffsetsMissing once the offset is missing for that time. New records are below the range's offsets.

        Any other answer ends that time: two brokers that restart, one after the other, lose no records.
        """
        now = time.monotonic()
        if not is_gone:
            self._gone_since = None
        elif self._gone_since is None:
            self._gone_since = now
        elif now - self._gone_since > min(GONE_PATIENCE_S, self._settings.timeout_ms / 2000.0):
            raise OffsetsMissing(why, None)

    def _retry(self, why: str, *, is_gone: bool = False) -> None:
        self._note_gone(why, is_gone=is_gone)
        if time.monotonic() + self._pause_s > self._deadline:
            self._give_up(why)
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _PAUSE_S_MAX)

    def _give_up(self, why: str) -> NoReturn:
        seconds = self._settings.timeout_ms / 1000.0
        raise NotReadable(
            f"{self._name} gave nothing from offset {self._offset} on for {seconds:g} s",
            why,
            (f"yak doctor -b {self._settings.bootstrap}",),
        )

    def _disconnect(self) -> None:
        self._is_requested = False
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
        self._connection = None


def _addresses(bootstrap: str) -> list[tuple[str, int]]:
    try:
        found = [split_address(part.strip().rpartition("://")[2]) for part in bootstrap.split(",") if part.strip()]
    except ValueError:
        found = []
    if not found:
        raise UnsupportedSetting("bootstrap", f"{bootstrap!r} is no list of HOST:PORT") from None
    return found
