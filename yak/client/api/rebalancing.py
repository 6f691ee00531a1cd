"""What happens when a group gives partitions to a consumer, or takes them.

The caller's functions run inside `poll` (and `close`), before anything takes effect: what is taken can still be
committed, and what is given begins where the function seeks to. What they raise comes out of the call they ran in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from yak.client.api.inbox import Inbox
from yak.ids import Offset, TopicPartition

OnRebalance: TypeAlias = Callable[[list[TopicPartition]], None]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The caller's functions. Without `on_lost`, partitions that were lost are told to `on_revoked` (as in Java)."""

    on_assigned: OnRebalance | None = None
    on_revoked: OnRebalance | None = None
    on_lost: OnRebalance | None = None


class Rebalancing:
    """Stands between librdkafka's rebalances and the caller's functions.

    Raises nothing into librdkafka; `raise_pending` raises what a function of the caller raised.
    """

    def __init__(self, inbox: Inbox, callbacks: Callbacks, *, is_cooperative: bool) -> None:
        self._inbox = inbox
        self._callbacks = callbacks
        self._is_cooperative = is_cooperative
        self._raised: BaseException | None = None
        self.arriving: dict[TopicPartition, Offset | None] = {}
        """While `on_assigned` runs: what is about to be ours, and where reading shall start, if it was said."""

    def assigned(self, handle: Any, wires: Sequence[Any]) -> None:
        """These partitions are ours from now on. With an eager protocol they are all that is ours."""
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
        """These are somebody else's as soon as this returns; the binding unassigns them then."""
        gone = [TopicPartition(wire.topic, wire.partition) for wire in wires]
        if gone:
            self._tell(self._callbacks.on_revoked, gone)
        self._inbox.forget(gone)

    def lost(self, _handle: Any, wires: Sequence[Any]) -> None:
        """These are somebody else's already: the group did not hear from us in time. A commit would be refused."""
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
        """Raise what a function of the caller raised, once."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
