"""The metadata store of a simulated quorum, as its committed commands make it: what the checks compare the brokers with.

Every node applies the same commands in the same order. The first node that applies one moves this state; the others are
compared with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.quorum.state_machine import StateMachine
from yak.sim.books import Violation

if TYPE_CHECKING:
    from yak.ids import Offset
    from yak.metadata_store.state import StoreState
    from yak.ports.metadata_store import TailedRecord
    from yak.quorum.quorum import Quorum


class CommittedStore:
    """The committed state, in place of `SimStore`."""

    up = True
    has_lost_history = False
    """A quorum loses nothing, whatever a minority loses."""

    def __init__(self) -> None:
        self._machine = StateMachine()
        self._commands: dict[Offset, bytes] = {}
        self._waiting: list[tuple[StoreRequest, bytes]] = []
        self.on_call: Callable[[StoreRequest, StoreOutcome], None] = lambda _request, _outcome: None

    @property
    def state(self) -> StoreState:
        """The state after the newest command that a broker has applied."""
        return self._machine.state

    def records_after(self, offset: int, limit: int = 500) -> list[TailedRecord]:
        """Records of the metadata log after `offset`."""
        return self._machine.records_after(offset, limit)

    def watch(self, quorum: Quorum, node_id: int) -> None:
        """Follow what one node applies."""
        apply = quorum.machine.apply

        def applied(value: bytes) -> StoreOutcome:
            offset = quorum.applied_offset - 1
            known = self._commands.get(offset)
            if known is None:
                self._commands[offset] = value
                command = json.loads(value)
                self._waiting.append((StoreRequest(command["script"], command["args"]), value))
            elif known != value:
                raise Violation(
                    f"Q1: broker {node_id} applied another command at offset {offset} than the brokers before"
                )
            return apply(value)

        quorum.machine.apply = applied  # type: ignore[method-assign]

    def take(self) -> None:
        """After a step: apply its new commands here, and report them."""
        while self._waiting:
            request, value = self._waiting.pop(0)
            self.on_call(request, self._machine.apply(value))
