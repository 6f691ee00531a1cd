"""Requests of many elements are decoded, served and encoded in slices, so that other connections are served between.

One such request is under way at a time, in order of arrival; the others wait as received bytes. An API whose module has
`slices` is served in slices. Any other API is served in one turn, between the turns that decode and encode. Later
requests of the same connection wait for the large one, so that a connection is served in order.

A short request may have a large answer: all groups, or all partitions. Its handler calls `LargeRequests.answer`, which
runs the first slice at once, and the others as those of a large request. Every large answer, also one that was delayed
until a job or a commit was done, is encoded in slices (`LargeRequests.encode`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.call import Call, DelayedOperation, Fields, Later, Now, Outcome, Slices
from yak.broker.delayed_answers import AS_LONG_AS_IT_TAKES_MS
from yak.limits import LARGE_REQUEST_ELEMENTS, REQUEST_ELEMENTS_MAX
from yak.protocol.codec import decode_in_slices, encode_in_slices
from yak.protocol.pace import at_once

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.broker.connections import Connection

SLICE_GAP_MS = 1
"""Between two slices the event loop serves the other connections."""
LARGE_ANSWERS_MAX = 8
"""Large requests and answers under way; beyond it an answer has to wait, or is not divided."""


class LargeRequest(DelayedOperation):
    """A request of many elements, or with an answer of many. `work` runs its next slice; the last slice returns the outcome.

    `others_wait` says whether later requests of the connection wait for it: not if they wait for an earlier one already.
    """

    __slots__ = ("_large_requests", "frame", "others_wait", "work")

    def __init__(self, large_requests: LargeRequests, call: Call, frame: bytes, work: Slices) -> None:
        super().__init__(call, AS_LONG_AS_IT_TAKES_MS)
        self._large_requests, self.frame, self.work = large_requests, frame, work
        connection = call.connection
        self.others_wait = connection.frames_behind_large is None
        if self.others_wait:
            connection.frames_behind_large = []

    def take_frames_behind(self) -> list[bytes]:
        """End the waiting of later requests; returns them."""
        if not self.others_wait:
            return []
        connection = self.call.connection
        behind, connection.frames_behind_large = connection.frames_behind_large or [], None
        return behind

    def leave(self) -> None:
        """Drop the remaining work."""
        self.work.close()
        self._large_requests.drop(self)


def _is_large(fields: Fields) -> bool:
    """Whether an answer has more elements than one slice encodes."""
    left, elements = [fields], 0
    while left:
        for value in left.pop().values():
            if type(value) is list and value and type(value[0]) is dict:
                elements += len(value)
                if elements > LARGE_REQUEST_ELEMENTS:
                    return True
                left += value
    return False


class LargeRequests:
    """The large requests of all connections, oldest first."""

    def __init__(self, broker: Broker) -> None:
        self._broker, self._context, self._counters = broker, broker.context, broker.counters
        self._queue: dict[LargeRequest, None] = {}
        self.held_bytes = 0
        """Bytes of large requests, and of the requests behind them."""

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, call: Call, served: Slices, frame: memoryview, offset: int) -> None:
        """Decode, serve and encode this request in slices, from a later turn on. Later requests of its connection wait."""
        copy = bytes(frame)
        large = LargeRequest(self, call, copy, self._work(call, served, copy, offset))
        self.held_bytes += len(copy)
        call.came_ns = self._counters.turn_ns
        call.delayed = large
        call.connection.calls.append(call)
        self._queue[large] = None
        self._arm()

    def answer(self, call: Call, served: Slices, *, is_large: bool = False) -> Outcome:
        """The outcome of a handler whose answer may be large: the rest after the first slice runs in later turns.

        While many wait, it runs in this turn: what each has copied at its first slice takes megabytes. An answer that
        `is_large` for certain waits for its first slice instead: one event may complete hundreds of such requests.

        Injected faults change an answer that is complete, so their request is served in this turn.
        """
        if call.fault is not None:
            return at_once(served)
        is_full = len(self._queue) >= LARGE_ANSWERS_MAX
        if not (is_full and is_large):
            try:
                next(served)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            if is_full:
                return at_once(served)
        return Later(self._add(call, served))

    def encode(self, call: Call, answer: Now) -> LargeRequest | None:
        """Encode an answer in slices, from a later turn on; None for one that is small, or while many wait."""
        if call.fault is not None or len(self._queue) >= LARGE_ANSWERS_MAX:
            return None
        if not _is_large(answer.fields):
            return None

        def served() -> Slices:
            yield from ()
            return answer

        return self._add(call, served())

    def _add(self, call: Call, served: Slices) -> LargeRequest:
        large = LargeRequest(self, call, b"", self._encoded(call, served))
        self._queue[large] = None
        self._arm()
        return large

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
        self.held_bytes -= len(large.frame) + sum(map(len, large.take_frames_behind()))

    def _arm(self) -> None:
        if self._queue:
            context = self._context
            context.within(self, SLICE_GAP_MS, self._run_slice)

    def _run_slice(self) -> None:
        """Run one slice of the oldest request."""
        for large in list(self._queue):
            connection = large.call.connection
            if connection.is_open:
                self._broker.serve(connection, large, self._advance)
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
        del self._queue[large]
        behind = large.take_frames_behind()
        self.held_bytes -= len(large.frame) + sum(map(len, behind))
        self._broker.purgatory.forget(large)
        self._broker.settle_large(large.call, outcome)
        for frame in behind:
            # A request is delayed again when one of those before it is large too.
            self._broker.on_frame(connection, memoryview(frame))

    def _work(self, call: Call, served: Slices, frame: bytes, offset: int) -> Slices:
        """Returns the encoded answer, or a delayed operation."""
        key, version = call.api_key, call.version
        call.request = yield from decode_in_slices(key, version, memoryview(frame), offset, REQUEST_ELEMENTS_MAX)
        yield
        return (yield from self._encoded(call, served))

    def _encoded(self, call: Call, served: Slices) -> Slices:
        outcome = yield from served
        if type(outcome) is Now:
            yield
            fields = self._broker.answered_fields(call, outcome.fields)
            yield from self._counters.note_errors(call.api_key, fields)
            parts = yield from encode_in_slices(call.api_key, call.version, call.correlation_id, fields)
            return [*parts]
        return outcome
