"""A broker's state towards the metadata store, and the ways out of membership: lost, frozen, refused, left.

The membership and its parts share it. A part that finds the store invalid reports it here, which abandons every call.
"""

from collections.abc import Sequence
from typing import Protocol

from yak.cluster import refusals
from yak.cluster.link import Link
from yak.cluster.member_state import MOVES, MemberState
from yak.cluster.outputs import Left, Refuse
from yak.seams.metadata_store import StoreOutcome

FIRST_LOOK_MS = 200
"""First recheck of a store that just proved to lack this broker's history: it begins the restore."""


class Pausable(Protocol):
    """A part of the membership that has calls under way."""

    def pause(self) -> None:
        """Abandon these calls: no reply will come."""


class Standing:
    """The state, its reason as text, and the timers."""

    def __init__(self, link: Link, recheck_ms: int) -> None:
        self._link = link
        self._recheck_ms = recheck_ms
        self.parts: Sequence[Pausable] = ()
        self.dues: dict[str, int] = {}
        """Due times in ms, by name: `recheck`, `register`, `leave`."""
        self.state = MemberState.DISCONNECTED
        self.reason = "the metadata store did not answer yet"
        self.is_ready = False
        """Whether the broker became ready once, and so serves clients."""
        self.is_leaving = False
        self.note = ""
        """The event that a frozen membership waits for."""

    @property
    def is_over(self) -> bool:
        """Whether this state is final."""
        return self.state in (MemberState.REFUSED, MemberState.LEFT)

    @property
    def is_joined(self) -> bool:
        """Whether this broker is registered with a store that holds its history."""
        return self.state in (MemberState.CATCHING_UP, MemberState.ACTIVE)

    def move(self, state: MemberState, reason: str = "") -> None:
        """Go to another state; `MOVES` names the allowed transitions."""
        assert state in MOVES[self.state], f"{self.state} -> {state}"
        self.state = state
        self.reason = reason
        self.note = ""

    def drop_calls(self) -> None:
        """Abandon all calls under way. Only the timeout of an orderly stop stays due."""
        self._link.forget_calls()
        for part in self.parts:
            part.pause()
        self.dues = {name: due_ms for name, due_ms in self.dues.items() if name == "leave"}

    def lose(self, reason: str) -> None:
        """The store does not answer."""
        self.drop_calls()
        if self.state is not MemberState.DISCONNECTED:
            self._link.say("warning", "metadata-store-lost", reason=reason)
            self.move(MemberState.DISCONNECTED, reason)
        elif reason != self.reason:
            self._link.say("warning", "metadata-store-unavailable", reason=reason)
            self.reason = reason
        if self.is_leaving:
            self.leave("the metadata store is away")

    def freeze(self, outcome: StoreOutcome, now_ms: int) -> None:
        """The store does not hold this broker's history: make no metadata change, and ask again later."""
        if self.is_over:
            return
        self.drop_calls()
        is_new = self.state is not MemberState.FROZEN
        self.dues["recheck"] = now_ms + (FIRST_LOOK_MS if is_new else self._recheck_ms)
        reason = refusals.frozen(outcome, self._link.image, is_serving=self.is_ready)
        if is_new:
            self.move(MemberState.FROZEN, reason)
            self._link.say("error", "metadata-frozen", code=outcome.code, reason=reason)
            if self.is_leaving:
                self.leave("frozen")
        self.reason = reason

    def refuse(self, refusal: Refuse) -> None:
        """This broker cannot be part of this cluster."""
        self.drop_calls()
        self.move(MemberState.REFUSED, refusal.message)
        self._link.put(refusal)

    def leave(self, reason: str) -> None:
        """The broker has left, recorded or not."""
        self.drop_calls()
        self.dues.clear()
        self.move(MemberState.LEFT, reason)
        self._link.put(Left())
