"""Delays requests that change the metadata until the image holds their changes, is the newest, or has expected followers.

ElectLeaders and AlterPartitionReassignments change many partitions by compare-and-set (`PartitionChanges`). A request too
large for one script call is split into several. A partition that changed between the image and the store is planned
again from the newer image, a few times. Every partition has its own result. Lists of configs change by compare-and-set
too (`change_from_image`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from yak.broker.call import Call, DelayedOperation, Later, Outcome, Slices
from yak.broker.delayed_answers import DelayedAnswer
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.limits import STORE_CALL_PARTITIONS_MAX
from yak.ports.metadata_store import StoreRequest
from yak.protocol.pace import Pace, at_once

if TYPE_CHECKING:
    from yak.broker.broker import Broker

ATTEMPTS_MAX = 4
"""A partition changes a few times a second at worst, and an attempt takes a few milliseconds."""

K = TypeVar("K")
"""What a request names a change by."""
Plan = Callable[[TopicPartition], "dict[str, object] | None"]
"""One partition's item for the script, from the present image; None when nothing is to be done. Raises PeerError."""
Results: TypeAlias = Mapping[TopicPartition, "PeerError | None"]


class DelayedMetadataChanges(DelayedOperation, Generic[K]):
    """A delayed request that changes the metadata: answered when each change is in the image or refused."""

    __slots__ = ("_build", "_metadata", "_pending", "_purgatory", "results")

    def __init__(
        self, broker: Broker, call: Call, timeout_ms: int, build: Callable[[dict[K, PeerError | None]], Outcome]
    ) -> None:
        super().__init__(call, timeout_ms)
        self._metadata, self._purgatory, self._build = broker.metadata, broker.purgatory, build
        self._pending: dict[int, Sequence[K]] = {}
        self.results: dict[K, PeerError | None] = {}

    def change(self, key: K, requests: Sequence[StoreRequest]) -> bool:
        """Send one change; a refusal becomes its result. Returns whether it was sent."""
        return self._send((key,), requests, self._record)

    def change_from_image(self, key: K, plan: Callable[[], Sequence[StoreRequest]]) -> None:
        """Plan one change and send it; plan it again from the newer image while the store has other values than expected.

        Each attempt fails because another change succeeded, so they end, at the latest with this request's time.
        """

        def take(keys: Sequence[K], error: PeerError | None, values: tuple[dict[str, Any], ...]) -> None:
            if error is None and values[0].get("code") == "INVALID_UPDATE_VERSION":
                self.change_from_image(key, plan)
            else:
                self._record(keys, error, values)

        try:
            requests = plan()
        except PeerError as error:
            self.refuse(key, error)
        else:
            if requests:
                self._send((key,), requests, take)

    def refuse(self, key: K, error: PeerError) -> None:
        """Record the result of a change that cannot be sent."""
        self._record((key,), error, ())

    def _send(
        self,
        keys: Sequence[K],
        requests: Sequence[StoreRequest],
        take: Callable[[Sequence[K], PeerError | None, tuple[dict[str, Any], ...]], None],
    ) -> bool:
        """Send one store call for these keys. The end of the last one completes the request."""
        change_id = -1

        def done(error: PeerError | None, values: tuple[dict[str, Any], ...]) -> None:
            if self._pending.pop(change_id, None) is not None:
                take(keys, error, values)
                if self.is_done():
                    self._purgatory.complete(self)

        try:
            change_id = self._metadata.begin_own(requests, done)
        except PeerError as error:
            self._record(keys, error, ())
            return False
        self._pending[change_id] = keys
        return True

    def _record(self, keys: Sequence[K], error: PeerError | None, _values: tuple[dict[str, Any], ...]) -> None:
        """Record the result of a store call.

        The error loses its traceback: its frames refer to this object, which would be a reference cycle.
        """
        self.results.update(dict.fromkeys(keys, None if error is None else error.with_traceback(None)))

    def is_done(self) -> bool:
        """Whether every change has its result."""
        return not self._pending

    def answer(self) -> Outcome:
        """The answer that the handler builds from the results by key."""
        return self._build(self.results)

    def on_expiration(self) -> Outcome:
        """Pending changes are answered with REQUEST_TIMED_OUT: they may still happen."""
        late = PeerError(
            ErrorCode.request_timed_out, "the metadata store did not confirm in time; the result is unknown"
        )
        for keys in self._pending.values():
            self.results.update(dict.fromkeys(keys, late))
        return self.answer()

    def leave(self) -> None:
        """Stop waiting for the pending changes."""
        for change_id in self._pending:
            self._metadata.abandon(change_id)


class PartitionChanges(DelayedMetadataChanges[TopicPartition]):
    """Partition changes under way; answered when each is in the image, or refused."""

    __slots__ = ("_already", "_codes", "_plan", "_script")

    def __init__(
        self,
        broker: Broker,
        call: Call,
        timeout_ms: int,
        build: Callable[[Results], Outcome],
        *,
        script: str,
        codes: Mapping[str, PeerError],
        already: ErrorCode,
        plan: Plan,
    ) -> None:
        """`codes` maps the script's refusals to Kafka's errors; `already` is the error of a plan without changes."""
        super().__init__(broker, call, timeout_ms, build)
        self._script, self._codes, self._already, self._plan = script, codes, already, plan

    def in_slices(self, wanted: Iterable[TopicPartition]) -> Slices:
        """Plan these partitions, each once, and send their changes; a request may name thousands, or mean all."""
        yield from self._change_all((each for each in wanted if each not in self.results), 1)
        return self.outcome()

    def _change_all(self, wanted: Iterable[TopicPartition], attempt: int) -> Generator[None, None, None]:
        items: dict[TopicPartition, dict[str, object]] = {}
        pace = Pace()
        for topic_partition in wanted:
            if pace.is_over(1):
                yield
            try:
                item = self._plan(topic_partition)
            except PeerError as error:
                # A retry may find that the first attempt, lost with the store, was applied.
                is_done = attempt > 1 and error.error_code == self._already
                self.results[topic_partition] = None if is_done else error.with_traceback(None)
                continue
            self.results[topic_partition] = None
            if item is not None:
                items[topic_partition] = item
            if len(items) == STORE_CALL_PARTITIONS_MAX:
                self._change_some(items, attempt)
                items = {}
        if items:
            self._change_some(items, attempt)

    def _change_some(self, items: dict[TopicPartition, dict[str, object]], attempt: int) -> None:
        request = StoreRequest(self._script, {"partitions": list(items.values())})
        self._send(list(items), (request,), partial(self._take, attempt))

    def _take(
        self,
        attempt: int,
        requested: Sequence[TopicPartition],
        error: PeerError | None,
        values: tuple[dict[str, Any], ...],
    ) -> None:
        if error is not None:
            self._record(requested, error, values)
            return
        again = []
        for topic_partition, code in zip(requested, values[0]["codes"], strict=True):
            if code == "OK":
                self.results[topic_partition] = None
            elif code == "INVALID_UPDATE_VERSION" and attempt < ATTEMPTS_MAX:
                again.append(topic_partition)
            else:
                unexpected = PeerError(ErrorCode.unknown_server_error, str(code))
                self.results[topic_partition] = self._codes.get(code, unexpected)
        if again:
            at_once(self._change_all(again, attempt + 1))


def from_newest_image(
    broker: Broker, call: Call, timeout_ms: int, begin: Callable[[Broker, Call], Outcome], *, is_needed: bool
) -> Outcome:
    """Start the request when the image has all that the metadata store has, or at once where this is not needed.

    Another broker may have acknowledged changes that this broker's image lacks. If the store does not answer in time, the
    request starts all the same, and its changes are refused. Whether the wait `is_needed` must not depend on a topic that the
    client has no right to: its time would disclose whether the topic exists.
    """
    if not is_needed:
        return begin(broker, call)
    start, metadata = partial(begin, broker, call), broker.metadata
    waiting = DelayedAnswer(broker.purgatory, call, timeout_ms, start, lambda: metadata.abandon(change_id))

    def done(_error: PeerError | None, _values: tuple[dict[str, Any], ...]) -> None:
        waiting.complete_with(start)

    try:
        # it changes nothing, and is done when the image has the store's newest record
        change_id = metadata.begin_own((StoreRequest("verify"),), done)
    except PeerError:
        return start()
    return waiting.outcome()


def after_followers(broker: Broker, call: Call, timeout_ms: int, begin: Callable[[Broker, Call], Outcome]) -> Outcome:
    """Start a request for replicated topics when the wait for followers ends.

    It also starts when its own time is over, and is refused then (`ExpectedFollowers.check`).
    """
    expected, start = broker.expected_followers, partial(begin, broker, call)

    def late() -> Outcome:
        expected.end_when_due()
        return start()

    wait_ms = min(timeout_ms, expected.wait_ms())
    waiting = DelayedAnswer(broker.purgatory, call, wait_ms, late, lambda: expected.remove(call))
    expected.add(call, lambda: waiting.complete_with(start))
    return Later(waiting)
