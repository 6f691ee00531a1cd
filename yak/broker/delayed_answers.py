"""Delayed requests that one later event answers: a commit of a coordinator's records, a group's members, the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from yak.broker.call import Call, DelayedOperation, Fields, Now, Outcome
from yak.errors import ErrorCode

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.broker.purgatory import Purgatory
    from yak.coordination.runtime import Then
    from yak.groups.classic.group import ClassicGroup

AS_LONG_AS_IT_TAKES_MS: Final = 86_400_000
"""The group's own timers end a rebalance; this only bounds the effect of a bug."""


class DelayedAnswer(DelayedOperation):
    """A delayed request: one later event gives its outcome, or `late()` when it times out.

    Outcomes are built when they are sent, so that an exception there ends this request's connection only.
    """

    __slots__ = ("_answer", "_late", "_leave", "_purgatory")

    def __init__(
        self,
        purgatory: Purgatory,
        call: Call,
        timeout_ms: int,
        late: Callable[[], Outcome],
        leave: Callable[[], object] = lambda: None,
    ) -> None:
        """`leave` removes the request from whatever refers to it; it is called once, at its end."""
        super().__init__(call, timeout_ms)
        self._purgatory = purgatory
        self._answer: Callable[[], Outcome] | None = None
        self._late, self._leave = late, leave

    def complete(self, fields: Fields) -> None:
        """Answer the request with these fields; only the first call counts."""
        self.complete_with(lambda: Now(fields))

    def complete_with(self, answer: Callable[[], Outcome]) -> None:
        """Answer the request with what `answer` returns; only the first call counts."""
        if self._answer is None and not self.finished:
            self._answer = answer
            self._purgatory.complete(self)

    def is_done(self) -> bool:
        """Whether the outcome is known."""
        return self._answer is not None

    def answer(self) -> Outcome:
        """The outcome."""
        assert self._answer is not None
        return self._answer()

    def on_expiration(self) -> Outcome:
        """The outcome after a time-out."""
        return self._late()

    def leave(self) -> None:
        """Remove this request from whatever refers to it."""
        self._leave()


def answer_when_safe(
    broker: Broker, call: Call, operation: Callable[[Then], Fields], refused: Callable[[ErrorCode], Fields]
) -> Outcome:
    """Send the answer of `operation` once it calls `then` with NONE, else `refused(error)`."""
    waiting = DelayedAnswer(
        broker.purgatory,
        call,
        broker.config.offsets_commit_timeout_ms,
        lambda: Now(refused(ErrorCode.coordinator_not_available)),
    )

    def then(error_code: ErrorCode) -> None:
        # perhaps before `operation` returns; the answer is built after that
        waiting.complete_with(lambda: Now(fields if error_code == ErrorCode.none else refused(error_code)))

    fields = operation(then)
    return waiting.outcome()


class DelayedMemberAnswer(DelayedAnswer):
    """A delayed JoinGroup or SyncGroup: the `Ticket` of a member. If its connection closes, the group is notified."""

    __slots__ = ("group", "shape")

    def __init__(
        self, purgatory: Purgatory, call: Call, group: ClassicGroup, shape: Callable[[Fields], Fields], late: Fields
    ) -> None:
        super().__init__(purgatory, call, AS_LONG_AS_IT_TAKES_MS, lambda: Now(shape(late)))
        self.group = group
        self.shape = shape

    def reply(self, fields: Fields) -> None:
        """Answer with the group's fields, in the request's version."""
        shape = self.shape  # an answer that referred to `self` would keep the request until a garbage collection
        if self._answer is None and not self.finished:
            self._answer = lambda: Now(shape(fields))
            self._purgatory.complete_soon(self)

    def leave(self) -> None:
        """Notify the group if the request ended unanswered: disconnected, or timed out."""
        if not self.is_done():
            member = self.group.holder_of(self)
            if member is not None:
                self.group.ticket_lost(member, self, self._purgatory.now_ms)
