"""Rebalances: partitions that a group assigns to a consumer, or revokes.

The caller's functions run inside `poll` (and `close`), before the rebalance takes effect: offsets of revoked partitions
can still be committed, and assigned partitions start where the function seeks to. The functions' errors are raised by
the call that they ran in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from yak.client.api.inbox import Inbox
from yak.ids import Offset, TopicPartition

OnRebalance: TypeAlias = Callable[[list[TopicPartition]], None]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The caller's functions. Without `on_lost`, lost partitions are passed to `on_revoked` (as in Java)."""

    on_assigned: OnRebalance | None = None
    on_revoked: OnRebalance | None = None
    on_lost: OnRebalance | None = None


class Rebalancing:
    """Passes librdkafka's rebalances to the caller's functions.

    Raises nothing into librdkafka; `raise_pending` raises the error of a caller's function.
    """

    def __init__(self, inbox: Inbox, callbacks: Callbacks, *, is_cooperative: bool) -> None:
        self._inbox = inbox
        self._callbacks = callbacks
        self._is_cooperative = is_cooperative
        self._raised: BaseException | None = None
        self.arriving: dict[TopicPartition, Offset | None] = {}
        """While `on_assigned` runs: the new partitions, and their start offsets after a `seek`."""

    def assigned(self, handle: Any, wires: Sequence[Any]) -> None:
        """These partitions are assigned. With an eager protocol they are the whole assignment."""
        self.arriving = {TopicPartition(wire.topic, wire.partition): None for wire in wires}
        self._tell(self._callbacks.on_assigned, list(self.arriving))
        for wire in wires:
            start = self.arriving[TopicPartition(wire.topic, wire.partition)]
            if start is not None:
                wire.offset = start
        self.arriving = {}
        if self._is_cooperative:
            handle.incremental_assign(wires)
        else:
            handle.assign(wires)
        paused = self._inbox.paused
        quiet = [wire for wire in wires if TopicPartition(wire.topic, wire.partition) in paused]
        if quiet:
            handle.pause(quiet)

    def revoked(self, _handle: Any, wires: Sequence[Any]) -> None:
        """These partitions are revoked when this returns; the binding unassigns them then."""
        gone = [TopicPartition(wire.topic, wire.partition) for wire in wires]
        if gone:
            self._tell(self._callbacks.on_revoked, gone)
        self._inbox.forget(gone)

    def lost(self, _handle: Any, wires: Sequence[Any]) -> None:
        """These partitions are lost: the session timed out and the group reassigned them. A commit would be refused."""
        gone = [TopicPartition(wire.topic, wire.partition) for wire in wires]
        self._inbox.forget(gone)
        if gone:
            self._tell(self._callbacks.on_lost or self._callbacks.on_revoked, gone)

    def _tell(self, function: OnRebalance | None, partitions: list[TopicPartition]) -> None:
        if function is None:
            return
        try:
            function(partitions)
        except BaseException as error:  # noqa: BLE001 - librdkafka must not see it; raise_pending raises it
            if self._raised is None:
                self._raised = error

    def raise_pending(self) -> None:
        """Raise the error of a caller's function, once."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
