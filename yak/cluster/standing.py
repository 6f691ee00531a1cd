"""Where a broker stands with the metadata store, and the ways out of good standing: lost, frozen, refused, left.

One object that the membership and its parts share: whoever finds out that the store is not ours says so here, and every
call under way is given up.
"""

from collections.abc import Sequence
from typing import Protocol

from yak.cluster import refusals
from yak.cluster.link import Link
from yak.cluster.member_state import MOVES, MemberState
from yak.cluster.outputs import Left, Refuse
from yak.seams.metadata_store import StoreOutcome

FIRST_LOOK_MS = 200
"""A store that has just been found to lack our history is asked again soon: that begins its restore."""


class Pausable(Protocol):
    """A part of the membership that has calls under way."""

    def pause(self) -> None:
        """None of them will be answered."""


class Standing:
    """The state, the reason for it in words, and what is due by the clock."""

    def __init__(self, link: Link, recheck_ms: int) -> None:
        self._link = link
        self._recheck_ms = recheck_ms
        self.parts: Sequence[Pausable] = ()
        self.dues: dict[str, int] = {}
        """What is due when, in ms: `recheck`, `register`, `leave`."""
        self.state = MemberState.DISCONNECTED
        self.reason = "the metadata store did not answer yet"
        self.is_ready = False
        """Whether the broker became ready once: it serves."""
        self.is_leaving = False
        self.note = ""
        """What a frozen membership waits for."""

    @property
    def is_over(self) -> bool:
        """Whether nothing will change any more."""
        return self.state in (MemberState.REFUSED, MemberState.LEFT)

    @property
    def is_joined(self) -> bool:
        """Whether we are registered with a store that holds our history."""
        return self.state in (MemberState.CATCHING_UP, MemberState.ACTIVE)

    def move(self, state: MemberState, reason: str = "") -> None:
        """Go to another state; only where the table lets us."""
        assert state in MOVES[self.state], f"{self.state} -> {state}"
        self.state = state
        self.reason = reason
        self.note = ""

    def drop_calls(self) -> None:
        """No reply will come for what is under way; only the end of an orderly stop stays due."""
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
            self._link.say("warning", "metadata-store-away", reason=reason)
            self.reason = reason
        if self.is_leaving:
            self.leave("the metadata store is away")

    def freeze(self, outcome: StoreOutcome, now_ms: int) -> None:
        """The store does not hold our history: make no change, and ask again in a while."""
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
        """The broker has left, or as good as."""
        self.drop_calls()
        self.dues.clear()
        self.move(MemberState.LEFT, reason)
        self._link.put(Left())
