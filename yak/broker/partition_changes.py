"""Requests that change many partitions by compare-and-set: ElectLeaders and AlterPartitionReassignments.

A request too large for one script call is split into several. A partition that changed between the image and the store
is planned again from the newer image, a few times. Every partition has its own result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, DelayedOperation, Outcome
from yak.cluster.leader_elections import MAX_PARTITIONS_PER_CALL
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.ports.metadata_store import StoreRequest

if TYPE_CHECKING:
    from yak.broker.purgatory import Purgatory
    from yak.lifecycle.metadata import Metadata

ATTEMPTS_MAX = 4
"""A partition changes a few times a second at worst, and an attempt takes a few milliseconds."""

Plan = Callable[[TopicPartition], "dict[str, object] | None"]
"""One partition's item for the script, from the present image; None when nothing is to be done. Raises PeerError."""
Results = Mapping[TopicPartition, "PeerError | None"]


class PartitionChanges(DelayedOperation):
    """Partition changes under way; answered when each is in the image, or refused."""

    __slots__ = ("_already", "_build", "_codes", "_metadata", "_pending", "_plan", "_purgatory", "_script", "results")

    def __init__(
        self,
        metadata: Metadata,
        purgatory: Purgatory,
        call: Call,
        timeout_ms: int,
        *,
        script: str,
        codes: Mapping[str, PeerError],
        already: ErrorCode,
        plan: Plan,
        build: Callable[[Results], Outcome],
    ) -> None:
        """`codes` maps the script's refusals to Kafka's errors; `already` is the error of a plan without changes."""
        super().__init__(call, timeout_ms)
        self._metadata, self._purgatory = metadata, purgatory
        self._already = already
        self._script = script
        self._codes = codes
        self._plan = plan
        self._build = build
        self._pending: dict[int, list[TopicPartition]] = {}
        self.results: dict[TopicPartition, PeerError | None] = {}

    def send(self, wanted: Iterable[TopicPartition], attempt: int = 1) -> None:
        """Plan these partitions and send their changes."""
        items: dict[TopicPartition, dict[str, object]] = {}
        for topic_partition in wanted:
            try:
                item = self._plan(topic_partition)
            except PeerError as error:
                # A retry may find that the first attempt, lost with the store, was applied.
                is_done = attempt > 1 and error.error_code == self._already
                self.results[topic_partition] = None if is_done else error
                continue
            self.results[topic_partition] = None
            if item is not None:
                items[topic_partition] = item
        rest = iter(items.items())
        while batch := dict(islice(rest, MAX_PARTITIONS_PER_CALL)):
            self._call(batch, attempt)

    def _call(self, batch: dict[TopicPartition, dict[str, object]], attempt: int) -> None:
        asked = list(batch)
        change_id = -1

        def done(error: PeerError | None, values: tuple[dict[str, Any], ...]) -> None:
            self._pending.pop(change_id, None)
            self._take(asked, error, values, attempt)
            if self.is_done():
                self._purgatory.complete(self)

        try:
            request = StoreRequest(self._script, {"partitions": list(batch.values())})
            change_id = self._metadata.begin_own((request,), done)
        except PeerError as error:
            self.results.update(dict.fromkeys(asked, error.with_traceback(None)))
            return
        self._pending[change_id] = asked

    def _take(
        self,
        asked: list[TopicPartition],
        error: PeerError | None,
        values: tuple[dict[str, Any], ...],
        attempt: int,
    ) -> None:
        if error is not None:
            self.results.update(dict.fromkeys(asked, error.with_traceback(None)))
            return
        again = []
        for topic_partition, code in zip(asked, values[0]["codes"], strict=True):
            if code == "OK":
                self.results[topic_partition] = None
            elif code == "INVALID_UPDATE_VERSION" and attempt < ATTEMPTS_MAX:
                again.append(topic_partition)
            else:
                unexpected = PeerError(ErrorCode.unknown_server_error, str(code))
                self.results[topic_partition] = self._codes.get(code, unexpected)
        if again:
            self.send(again, attempt + 1)

    def is_done(self) -> bool:
        """Whether no change is under way."""
        return not self._pending

    def answer(self) -> Outcome:
        """The answer that the handler builds from each partition's result."""
        return self._build(self.results)

    def on_expiration(self) -> Outcome:
        """Answer REQUEST_TIMED_OUT for changes still under way: they may still happen."""
        late = PeerError(
            ErrorCode.request_timed_out, "the metadata store did not confirm in time; the result is unknown"
        )
        for asked in self._pending.values():
            self.results.update(dict.fromkeys(asked, late))
        return self.answer()

    def leave(self) -> None:
        """Abandon the changes still under way."""
        for change_id in self._pending:
            self._metadata.abandon(change_id)
