"""Delayed requests that one later event answers: a commit of a coordinator's records, a group's members, the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from yak.broker.call import Call, DelayedOperation, Fields, Now, Outcome
from yak.errors import ErrorCode

if TYPE_CHECKING:
    from yak.broker.purgatory import Purgatory
    from yak.coordination.runtime import Then
    from yak.groups.classic.group import ClassicGroup

AS_LONG_AS_IT_TAKES_MS: Final = 86_400_000
"""The group's own timers end a rebalance; this only bounds the effect of a bug."""


class DelayedAnswer(DelayedOperation):
    """A delayed request, answered with `fields` once they are known, or with `late()` when it times out."""

    __slots__ = ("_purgatory", "fields", "late")

    def __init__(self, purgatory: Purgatory, call: Call, timeout_ms: int, late: Callable[[], Fields]) -> None:
        super().__init__(call, timeout_ms)
        self._purgatory = purgatory
        self.fields: Fields | None = None
        self.late = late

    def complete(self, fields: Fields) -> None:
        """Answer the request; only the first call counts."""
        if self.fields is None and not self.finished:
            self.fields = fields
            self._purgatory.complete(self)

    def is_done(self) -> bool:
        """Whether `fields` are set."""
        return self.fields is not None

    def answer(self) -> Outcome:
        """Answer with `fields`."""
        assert self.fields is not None
        return Now(self.fields)

    def on_expiration(self) -> Outcome:
        """Answer with `late()`."""
        return Now(self.late())


def answer_when_safe(
    purgatory: Purgatory,
    call: Call,
    timeout_ms: int,
    operation: Callable[[Then], Fields],
    refused: Callable[[ErrorCode], Fields],
) -> Outcome:
    """Send the answer of `operation` once it calls `then` with NONE, else `refused(error)`."""
    waiting = DelayedAnswer(purgatory, call, timeout_ms, lambda: refused(ErrorCode.coordinator_not_available))
    codes: list[ErrorCode] = []
    answers: list[Fields] = []

    def then(error_code: ErrorCode) -> None:
        codes.append(error_code)
        if answers:
            settle()

    def settle() -> None:
        waiting.complete(answers[0] if codes[0] == ErrorCode.none else refused(codes[0]))

    answers.append(operation(then))
    if codes:
        settle()
    return waiting.outcome()


class DelayedMemberAnswer(DelayedAnswer):
    """A delayed JoinGroup or SyncGroup: the `Ticket` of a member. If its connection closes, the group is notified."""

    __slots__ = ("group", "shape")

    def __init__(
        self, purgatory: Purgatory, call: Call, group: ClassicGroup, shape: Callable[[Fields], Fields], late: Fields
    ) -> None:
        super().__init__(purgatory, call, AS_LONG_AS_IT_TAKES_MS, lambda: shape(late))
        self.group = group
        self.shape = shape

    def reply(self, fields: Fields) -> None:
        """Answer with the group's fields."""
        self.complete(fields)

    def answer(self) -> Outcome:
        """Answer in the request's version. It is shaped here, since a failure here does not affect the group."""
        assert self.fields is not None
        return Now(self.shape(self.fields))

    def leave(self) -> None:
        """Notify the group if the request ended unanswered: disconnected, or timed out."""
        if self.fields is None:
            member = self.group.holder_of(self)
            if member is not None:
                self.group.ticket_lost(member, self, self._purgatory.now_ms)
