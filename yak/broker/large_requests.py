"""Requests of many elements are decoded, served and encoded in slices, so that other connections are served between.

One such request is under way at a time, in order of arrival; the others wait as received bytes. An API whose module has
`slices` is served in slices. Any other API is served in one turn, between the turns that decode and encode. Later
requests of the same connection wait for the large one, so that a connection is served in order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, DelayedOperation, Fields, Now, Outcome, Slices
from yak.broker.counters import Counters
from yak.core.context import Context
from yak.limits import REQUEST_ELEMENTS_MAX, SLICE_ELEMENTS
from yak.protocol.codec import decode_in_slices, encode_in_slices

if TYPE_CHECKING:
    from yak.broker.connections import Connection

SLICE_GAP_MS = 1
"""Between two slices the event loop serves the other connections."""


class LargeRequest(DelayedOperation):
    """One request of many elements. `work` runs its next slice; the last slice returns the outcome."""

    __slots__ = ("_large_requests", "frame", "work")

    def __init__(self, large_requests: LargeRequests, call: Call, frame: bytes, work: Slices) -> None:
        super().__init__(call, 0)
        self._large_requests, self.frame, self.work = large_requests, frame, work

    def leave(self) -> None:
        """Drop the remaining work."""
        self.work.close()
        self._large_requests.drop(self)


class LargeRequests:
    """The large requests of all connections, oldest first."""

    def __init__(
        self,
        context: Context,
        counters: Counters,
        answered: Callable[[Call, Fields], Fields],
        serve: Callable[[Connection, LargeRequest, Callable[[Connection, LargeRequest], None]], None],
        settle: Callable[[Call, Outcome], None],
        on_frame: Callable[[Connection, memoryview], None],
    ) -> None:
        self._context, self._counters = context, counters
        self._answered, self._serve, self._settle, self._on_frame = answered, serve, settle, on_frame
        """`answered` gives the fields that are sent; `settle` delays or sends an answer; `on_frame` steps a request that waited for a large one."""
        self._queue: dict[LargeRequest, None] = {}
        self.held_bytes = 0
        """Bytes of large requests, and of the requests behind them."""

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, call: Call, served: Slices, frame: memoryview, offset: int) -> None:
        """Decode, serve and encode this request in slices, from a later turn on. Later requests of its connection wait."""
        connection, copy = call.connection, bytes(frame)
        large = LargeRequest(self, call, copy, self._work(call, served, copy, offset))
        self.held_bytes += len(copy)
        call.came_ns = self._counters.turn_ns
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
            context = self._context
            context.timers.arm_at_the_latest(self, context.clock.now_ms + SLICE_GAP_MS, self._run_slice)

    def _run_slice(self) -> None:
        """Run one slice of the oldest request."""
        for large in list(self._queue):
            connection = large.call.connection
            if connection.is_open:
                self._serve(connection, large, self._advance)
            if not connection.is_open:
                self.drop(large)
            break
        self._arm()

    def _advance(self, connection: Connection, large: LargeRequest) -> None:
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
        self._settle(large.call, outcome)
        for frame in behind:
            # A request is kept again when one of those before it is large too.
            self._on_frame(connection, memoryview(frame))

    def _work(self, call: Call, served: Slices, frame: bytes, offset: int) -> Slices:
        """Returns the encoded answer, or a delayed operation."""
        key, version = call.api_key, call.version
        call.request = yield from decode_in_slices(key, version, memoryview(frame), offset, REQUEST_ELEMENTS_MAX)
        yield
        outcome = yield from served
        if type(outcome) is Now:
            yield
            fields = self._answered(call, outcome.fields)
            yield from self._count_errors(key, fields)
            parts = yield from encode_in_slices(key, version, call.correlation_id, fields)
            return [*parts]
        return outcome

    def _count_errors(self, api_key: int, fields: Mapping[str, Any]) -> Generator[None, None, None]:
        """`Counters.note_errors` with pauses."""
        left, passed = [fields], 0
        while left:
            part = left.pop()
            code = part.get("error_code")
            if code:
                self._counters.failed(api_key, code)
            for value in part.values():
                if type(value) is list and value and type(value[0]) is dict:
                    left += value
            passed += 1
            if passed % SLICE_ELEMENTS == 0:
                yield
