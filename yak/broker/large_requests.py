"""Requests of many elements are decoded, served and encoded in slices, so that other connections are served between.

One such request is under way at a time, in order of arrival; the others wait as received bytes. An API whose module has
`slices` is served in slices. Any other API is served in one turn, between the turns that decode and encode. Later
requests of the same connection wait for the large one, so that a connection is served in order.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, DelayedOperation, Handler, Now, Outcome, Prebuilt
from yak.limits import REQUEST_ELEMENTS_MAX, SLICE_ELEMENTS
from yak.protocol.codec import decode_in_slices, encode_in_slices

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.broker.connections import Connection

SLICE_GAP_MS = 1
"""Between two slices the event loop serves the other connections."""


class LargeRequest(DelayedOperation):
    """One request of many elements. `work` runs its next slice; the last slice returns the outcome."""

    __slots__ = ("frame", "work")

    def __init__(self, broker: Broker, call: Call, handle: Handler, frame: bytes, offset: int) -> None:
        super().__init__(call, 0)
        self.frame = frame
        self.work = _work(broker, call, handle, frame, offset)

    def leave(self, broker: Broker) -> None:
        """Drop the remaining work."""
        self.work.close()
        broker.large_requests.drop(self)


class LargeRequests:
    """The large requests of all connections, oldest first."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queue: dict[LargeRequest, None] = {}
        self.held_bytes = 0
        """Bytes of large requests, and of the requests behind them."""

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, call: Call, handle: Handler, frame: memoryview, offset: int) -> None:
        """Serve this request in slices, from a later turn on. Later requests of its connection wait."""
        broker, connection = self._broker, call.connection
        large = LargeRequest(broker, call, handle, bytes(frame), offset)
        self.held_bytes += len(large.frame)
        call.came_ns = broker.counters.turn_ns
        call.delayed = large
        connection.calls.append(call)
        connection.frames_behind_large = []
        self._queue[large] = None
        self._arm()

    def keep(self, connection: Connection, frame: memoryview) -> None:
        """Keep a request that arrived behind a large one of its connection."""
        assert connection.frames_behind_large is not None
        connection.frames_behind_large.append(bytes(frame))
        self.held_bytes += len(frame)

    def drop(self, large: LargeRequest) -> None:
        """Drop a request, and the requests behind it on its connection."""
        if large not in self._queue:
            return
        del self._queue[large]
        self.held_bytes -= len(large.frame) + sum(map(len, large.call.connection.frames_behind_large or ()))
        large.call.connection.frames_behind_large = None

    def _arm(self) -> None:
        if self._queue:
            timers = self._broker.timers
            timers.arm_at_the_latest(self, self._broker.now_ms + SLICE_GAP_MS, self._run_slice)

    def _run_slice(self) -> None:
        """Run one slice of the oldest request."""
        broker = self._broker
        for large in list(self._queue):
            connection = large.call.connection
            if connection.is_open:
                broker.serve(connection, large, self._advance)
            if not connection.is_open:
                self.drop(large)
            break
        self._arm()

    def _advance(self, connection: Connection, large: DelayedOperation) -> None:
        assert isinstance(large, LargeRequest)
        try:
            next(large.work)
        except StopIteration as end:
            outcome: Outcome = end.value
        else:
            return
        behind, connection.frames_behind_large = connection.frames_behind_large or [], None
        del self._queue[large]
        self.held_bytes -= len(large.frame) + sum(map(len, behind))
        large.finished = True
        large.call.delayed = None
        self._broker.settle_large(large.call, outcome)
        for frame in behind:
            # A request is kept again when one of those before it is large too.
            self._broker.on_kept_frame(connection, memoryview(frame))


def _work(broker: Broker, call: Call, handle: Handler, frame: bytes, offset: int) -> Generator[None, None, Outcome]:
    """Decode, serve, encode; returns the encoded answer, or a delayed operation."""
    key, version = call.api_key, call.version
    call.request = yield from decode_in_slices(key, version, memoryview(frame), offset, REQUEST_ELEMENTS_MAX)
    yield
    slices = broker.apis.sliced.get((key, version))
    outcome: Outcome = handle(broker, call) if slices is None else (yield from slices(broker, call))
    if type(outcome) is Now:
        yield
        yield from _count_errors(broker, key, outcome.fields)
        parts = yield from encode_in_slices(key, version, call.correlation_id, outcome.fields)
        return Prebuilt([*parts])
    return outcome


def _count_errors(broker: Broker, api_key: int, fields: Mapping[str, Any]) -> Generator[None, None, None]:
    """`Counters.note_errors` with pauses."""
    left, passed = [fields], 0
    while left:
        part = left.pop()
        code = part.get("error_code")
        if code:
            broker.counters.failed(api_key, code)
        for value in part.values():
            if type(value) is list and value and type(value[0]) is dict:
                left += value
        passed += 1
        if passed % SLICE_ELEMENTS == 0:
            yield
