"""Random histories of a correct cluster: producers, readers, a group and transactions over faults.

The checker must accept every one of them, and `corruptions` corrupts them.
"""

from dataclasses import dataclass, field
from typing import Final

from yak.ids import Offset
from yak.sim.history_checker.history import Assign, Commit, History, Outcome, Poll, Run, Send, Txn, run
from yak.sim.history_checker.history import Final as FinalRead
from yak.sim.seeded_random import SeededRandom

GROUP: Final = "team"
WORKERS: Final = "workers"
_MARKER: Final = None
"""The entry at the offset of a transaction marker."""


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """The size of a history."""

    partitions: int = 3
    producers: int = 3
    readers: int = 2
    members: int = 2
    steps: int = 120
    transactions: bool = True


@dataclass(slots=True)
class _Cluster:
    """One log per partition, and the offsets of one group."""

    logs: dict[str, list[int | None]]
    hidden: set[int] = field(default_factory=set)
    """Values of transactions that are open or aborted."""
    open_at: dict[str, dict[int, Offset]] = field(default_factory=dict)
    """The first offset of each open transaction, by partition."""
    committed: dict[str, Offset] = field(default_factory=dict)
    processed: Offset = 0
    """The offset that the workers committed for the first partition."""

    def stable_end(self, name: str) -> Offset:
        return min(self.open_at.get(name, {}).values(), default=len(self.logs[name]))

    def read(self, name: str, start: Offset, count: int) -> list[tuple[Offset, int]]:
        found: list[tuple[Offset, int]] = []
        for offset in range(start, min(self.stable_end(name), start + count)):
            value = self.logs[name][offset]
            if value is not None and value not in self.hidden:
                found.append((offset, value))
        return found


class Maker:
    """One history under construction. Time advances a little with each step."""

    def __init__(self, rng: SeededRandom, settings: HistorySettings) -> None:
        self.history = History()
        self._rng = rng
        self._settings = settings
        names = [f"made-{number}" for number in range(settings.partitions)]
        self._cluster = _Cluster({name: [] for name in names})
        self._names = names
        self._now = 0.0
        self._counters = [0] * settings.producers
        self._next_txn = 0
        self._positions: dict[str, dict[str, Offset]] = {}
        self._owners: dict[str, str] = {}
        self._last_runs: list[Run] = []

    def make(self) -> History:
        """Build the history, with a read of everything at the end."""
        for number in range(self._settings.readers):
            self._begin_reader(f"reader-{number}")
        self._rebalance()
        self._begin_worker()
        for _ in range(self._settings.steps):
            self._step()
        self._read_all("final")
        self.history.add(FinalRead("final", {name: len(log) for name, log in self._cluster.logs.items()}))
        return self.history

    def _tick(self) -> float:
        self._now += self._rng.between(1, 50) / 1000.0
        return self._now

    def _step(self) -> None:
        drawn = self._rng.below(100)
        if drawn < 50:
            self._send(self._rng.below(self._settings.producers))
        elif drawn < 60 and self._settings.transactions:
            self._transact(self._rng.below(self._settings.producers))
        elif drawn < 64 and self._settings.transactions:
            self._transact(0, reads=True)
        elif drawn < 80 and self._settings.readers:
            reader = f"reader-{self._rng.below(self._settings.readers)}"
            self._poll(reader, self._names)
        elif drawn < 84 and self._settings.readers:
            self._begin_reader(f"reader-{self._rng.below(self._settings.readers)}")
        elif drawn < 96 and self._settings.members:
            self._work(f"member-{self._rng.below(self._settings.members)}")
        else:
            self._rebalance()

    # -------------------------------------------------------------------------------------------------- writing

    def _append(self, producer: int, name: str, outcome: Outcome, txn: int | None = None) -> int:
        self._counters[producer] += 1
        value = (producer + 1) << 32 | self._counters[producer]
        invoked, log = self._tick(), self._cluster.logs[name]
        stored = outcome is Outcome.OK or (outcome is Outcome.INFO and self._rng.chance(50))
        offset = len(log) if stored else None
        if stored:
            log.append(value)
        reported = offset if outcome is Outcome.OK and self._rng.chance(95) else None
        self.history.add(Send(f"producer-{producer}", name, value, invoked, self._tick(), outcome, reported, txn))
        return value

    def _send(self, producer: int) -> None:
        drawn = self._rng.below(100)
        outcome = Outcome.OK if drawn < 85 else Outcome.INFO if drawn < 95 else Outcome.FAIL
        self._append(producer, self._rng.choice(self._names), outcome)

    def _transact(self, producer: int, *, reads: bool = False) -> None:
        """Some sends; `read_committed` readers stop before the first of them until the transaction ends.

        With `reads`, one for each record that a worker polls, and with them the worker's offset.
        """
        inputs = self._poll("worker", self._names[:1], self._next_txn) if reads else {}
        if reads and not inputs:
            return
        number, self._next_txn = self._next_txn, self._next_txn + 1
        cluster = self._cluster
        sent: dict[int, str] = {}
        for _ in range(len(self._last_runs[0].values) if reads else self._rng.between(1, 4)):
            name = self._rng.choice(self._names)
            cluster.open_at.setdefault(name, {}).setdefault(number, len(cluster.logs[name]))
            value = self._append(producer, name, Outcome.OK, number)
            cluster.hidden.add(value)
            sent[value] = name
            if self._settings.readers and self._rng.chance(50):
                self._poll("reader-0", self._names)
        drawn = self._rng.below(100)
        outcome = Outcome.OK if drawn < 70 else Outcome.FAIL if drawn < 85 else Outcome.INFO
        took_effect = outcome is Outcome.OK or (outcome is Outcome.INFO and self._rng.chance(50))
        requested = self._tick()
        for name in dict.fromkeys(sent.values()):
            cluster.logs[name].append(_MARKER)
            del cluster.open_at[name][number]
        if took_effect:
            cluster.hidden.difference_update(sent)
        if inputs:
            self.history.add(Commit("worker", WORKERS, requested, self._tick(), outcome, dict(inputs)))
        self.history.add(Txn(number, f"producer-{producer}", requested, self._tick(), outcome))
        if inputs and took_effect:
            cluster.processed = inputs[self._names[0]]
        if inputs and outcome is not Outcome.OK:
            self._begin_worker()

    # -------------------------------------------------------------------------------------------------- reading

    def _begin_reader(self, process: str) -> None:
        starts = {name: self._rng.below(len(log) + 1) for name, log in self._cluster.logs.items()}
        self._positions[process] = dict(starts)
        self.history.add(Assign(process, self._tick(), dict(starts)))

    def _begin_worker(self) -> None:
        """Begin to read where the workers committed."""
        self._positions["worker"] = {self._names[0]: self._cluster.processed}
        self.history.add(Assign("worker", self._tick(), dict(self._positions["worker"]), (), WORKERS))

    def _poll(self, process: str, names: list[str], txn: int | None = None) -> dict[str, Offset]:
        """Poll; returns the new position of each partition with records."""
        invoked, moved = self._tick(), {}
        runs: list[Run] = []
        positions = self._positions[process]
        for name in names:
            records = self._cluster.read(name, positions[name], self._rng.between(1, 20))
            if records:
                positions[name] = moved[name] = records[-1][0] + 1
                runs.append(run(name, records))
        self._last_runs = runs
        self.history.add(Poll(process, invoked, self._tick(), tuple(runs), read_committed=True, txn=txn))
        return moved

    def _read_all(self, process: str) -> None:
        self.history.add(Assign(process, self._tick(), dict.fromkeys(self._names, 0)))
        for name, log in self._cluster.logs.items():
            records = self._cluster.read(name, 0, len(log))
            if records:
                self.history.add(Poll(process, self._tick(), self._tick(), (run(name, records),), read_committed=True))

    def _rebalance(self) -> None:
        """Assign the partitions to the members again, each from the committed offset on."""
        members = [f"member-{number}" for number in range(self._settings.members)]
        if not members:
            return
        for member in members:
            held = tuple(name for name, owner in self._owners.items() if owner == member)
            self.history.add(Assign(member, self._tick(), {}, held, GROUP))
        shift = self._rng.below(len(members))
        self._owners = {name: members[(n + shift) % len(members)] for n, name in enumerate(self._names)}
        for member in members:
            starts = {
                name: self._cluster.committed.get(name, -1) for name, owner in self._owners.items() if owner == member
            }
            self._positions[member] = {name: max(0, start) for name, start in starts.items()}
            self.history.add(Assign(member, self._tick(), dict(starts), (), GROUP))

    def _work(self, member: str) -> None:
        mine = [name for name, owner in self._owners.items() if owner == member]
        moved = self._poll(member, mine)
        if not moved or self._rng.chance(20):
            return
        drawn = self._rng.below(100)
        outcome = Outcome.OK if drawn < 80 else Outcome.INFO if drawn < 90 else Outcome.FAIL
        if outcome is Outcome.OK or (outcome is Outcome.INFO and self._rng.chance(50)):
            self._cluster.committed.update(moved)
        self.history.add(Commit(member, GROUP, self._tick(), self._tick(), outcome, dict(moved)))


def make(rng: SeededRandom, settings: HistorySettings | None = None) -> History:
    """A history without a contradiction."""
    return Maker(rng, settings or HistorySettings()).make()
