"""The metadata store of the simulator and of unit tests: `yak.metadata_store` with a journal, and faults as methods.

The store is down, restarts, loses its newest records (a restore from a backup, an unsynced append-only file), or
everything.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from yak.cluster.restore import RestorePlan, StoreBefore, plan_restore, unpack
from yak.metadata_store.restore import offers_digest
from yak.metadata_store.scripts import execute
from yak.metadata_store.state import StoreState
from yak.ports.metadata_store import StoreOutcome, StoreRequest, TailedRecord
from yak.quorum.state_machine import StateMachine
from yak.quorum.store_choice import has_metadata
from yak.sim.deliveries import Violation

if TYPE_CHECKING:
    from yak.ids import Offset
    from yak.quorum.quorum import Quorum

RECORDS_A_READ = 500
_NOT_JOURNALLED = frozenset({"verify", "report_hw"})


@dataclass(slots=True, frozen=True)
class _ExecutedCall:
    """An executed call, and the log's end after it."""

    request: StoreRequest
    now_ms: int
    offset: int


class SimStore:
    """The store. `call` is atomic like a script call in Redis: a refused call changes nothing."""

    def __init__(self) -> None:
        self.state = StoreState()
        self.up = True
        self._boots = 1
        self._journal: list[_ExecutedCall] = []
        self._remains: StoreState | None = None
        """What it serves after `lose_history`, until an operator restores it; `state` stays what it was for the checks."""

    @property
    def process_id(self) -> str:
        """Differs after each restart."""
        return f"sim-store-{self._boots}"

    def call(self, request: StoreRequest, now_ms: int) -> StoreOutcome:
        """Run a script at `now_ms`. The store must be `up`."""
        assert self.up, "the caller knows that the store is down"
        outcome = execute(self.served, request, now_ms)
        if outcome.code == "OK" and request.script == "seed_commit":
            self.state, self._remains = self.served, None
        if outcome.code == "OK" and request.script not in _NOT_JOURNALLED:
            self._journal.append(_ExecutedCall(request, now_ms, outcome.offset))
        return outcome

    def records_after(self, offset: int, limit: int = RECORDS_A_READ) -> list[TailedRecord]:
        """Records after `offset`, in order; if they were trimmed, the snapshot comes first."""
        return self.served.records_after(offset, limit)

    @property
    def served(self) -> StoreState:
        """The content that calls work on."""
        return self.state if self._remains is None else self._remains

    @property
    def has_lost_history(self) -> bool:
        """Whether an operator has to restore it."""
        return self._remains is not None

    def lose_history(self, count: int | None) -> None:
        """Lose at least the newest `count` records, or everything with None, until a restore."""
        whole = self.saved()[0]
        if count is None:
            self.flush_all()
        else:
            self.lose_last(count)
        self.state, self._remains = whole, self.state

    def plan_restore(self, incarnation_id: str, now_ms: int) -> RestorePlan:
        """The plan of an operator for the present offers, of which there is at least one."""
        served = self.served
        brokers = {node_id: (broker["broker_epoch"], broker["boot_id"]) for node_id, broker in served.brokers.items()}
        before = StoreBefore(served.cluster["mo"], served.cluster["incarnation"], brokers)
        offers = [unpack(packed) for packed in served.offers.values()]
        return plan_restore(offers, before, incarnation_id=incarnation_id, now_ms=now_ms)

    def restore_request(self, plan: RestorePlan) -> StoreRequest:
        return StoreRequest("seed_commit", {"node_id": -1} | plan.arguments(offers_digest(self.served.offers)))

    def saved(self) -> tuple[StoreState, list[_ExecutedCall]]:
        """A copy of the whole content, for `bring_back`."""
        return copy.deepcopy(self.state), list(self._journal)

    def bring_back(self, saved: tuple[StoreState, list[_ExecutedCall]]) -> None:
        """Start again with saved content (an operator's restore)."""
        (self.state, self._journal), self._remains = saved, None
        self.restart()

    def restart(self) -> None:
        """Start another process with the same data, which include the counters."""
        self._boots += 1
        self.up = True

    def lose_last(self, count: int) -> None:
        """Roll back at least the newest `count` records; the records of one call are lost together."""
        target = max(0, self.state.cluster.get("mo", 0) - count)
        self._journal = list(takewhile(lambda done: done.offset <= target, self._journal))
        self.state = StoreState()
        for done in self._journal:
            again = execute(self.state, done.request, done.now_ms)
            assert (again.code, again.offset) == ("OK", done.offset), "the same calls have the same effects"
        self._boots += 1

    def flush_all(self) -> None:
        """Delete everything (`FLUSHALL`)."""
        self.state = StoreState()
        self._journal.clear()


class CommittedStore:
    """The metadata store of a simulated quorum, as its committed commands make it, in place of `SimStore`.

    Every node applies the same commands in the same order. The first node that applies one moves this state; the others
    are compared with it.
    """

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

    def records_after(self, offset: int, limit: int = RECORDS_A_READ) -> list[TailedRecord]:
        return self._machine.state.records_after(offset, limit)

    def watch(self, quorum: Quorum, node_id: int) -> None:
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


class MovingStore:
    """The simulated Redis, in which the cluster was made, and the committed state of the brokers' quorum.

    What the checks compare the brokers with is in the one that has the metadata: the quorum, from the first node that
    applies their import on, until the first one that applies their closing.
    """

    has_lost_history = False
    """Lost history belongs to runs with Redis alone."""

    def __init__(self, cluster_id: str) -> None:
        self.redis, self.committed = SimStore(), CommittedStore()
        ids: dict[str, object] = {"new_cluster_id": cluster_id, "new_incarnation_id": "simulated"}
        self.redis.call(StoreRequest("bootstrap", ids), 0)

    @property
    def is_in_quorum(self) -> bool:
        return has_metadata(self.committed.state)

    @property
    def state(self) -> StoreState:
        """The content of the store that has the metadata."""
        return self.committed.state if self.is_in_quorum else self.redis.state

    @property
    def up(self) -> bool:
        """Whether the simulated Redis runs."""
        return self.redis.up

    @up.setter
    def up(self, value: bool) -> None:
        self.redis.up = value

    def restart(self) -> None:
        self.redis.restart()

    def records_after(self, offset: int, limit: int = RECORDS_A_READ) -> list[TailedRecord]:
        return (self.committed if self.is_in_quorum else self.redis).records_after(offset, limit)


def committed_part(store: SimStore | CommittedStore | MovingStore) -> CommittedStore | None:
    """The committed state of the brokers' quorum; None with the simulated Redis alone."""
    committed = store.committed if isinstance(store, MovingStore) else store
    return committed if isinstance(committed, CommittedStore) else None
