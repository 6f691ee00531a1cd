"""The metadata store in memory, for the simulator and for unit tests; it returns the same results as the scripts in
Redis.

Pure and deterministic: each call passes the time. Faults are methods: the store is down, restarts, loses its newest
records (a restore from a backup, an unsynced append-only file), or everything.
"""

import copy
import hashlib
import json
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from yak.ports.metadata_store import StoreOutcome, StoreRequest, TailedRecord
from yak.sim.store_checks import Refused
from yak.sim.store_scripts import SCRIPTS
from yak.sim.store_seeding import incarnation_for

_NOT_JOURNALLED = frozenset({"verify", "report_hw", "seed_status", "seed_read"})
_OWN_CHECKS = frozenset(
    {"bootstrap", "seed_begin", "seed_offer", "seed_status", "seed_read", "seed_commit", "seed_abort"}
)
"""Scripts that also run on a store without the caller's history."""


@dataclass(slots=True)
class StoreState:
    """The whole content of the store: the same as the keys in Redis."""

    cluster: dict[str, Any] = field(default_factory=dict)
    brokers: dict[int, dict[str, Any]] = field(default_factory=dict)
    unregistered: dict[int, bool] = field(default_factory=dict)
    heartbeats: dict[int, int] = field(default_factory=dict)
    full: dict[int, None] = field(default_factory=dict)
    """Brokers without room for another log."""
    secret: str = ""
    topic_ids: dict[str, str] = field(default_factory=dict)
    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    partitions: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    high_watermarks: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    log_end_offsets: dict[tuple[str, int], tuple[int, dict[str, int]]] = field(default_factory=dict)
    log: list[TailedRecord] = field(default_factory=list)
    snapshot: TailedRecord | None = None
    seed: dict[str, Any] = field(default_factory=dict)
    """A pending restore (`yak.sim.store_seeding`)."""

    def append(self, kind: str, payload: dict[str, Any], now_ms: int) -> int:
        """Append a record to the hash chain; returns its offset."""
        offset: int = self.cluster["mo"] + 1
        body = json.dumps({"version": 0} | payload, sort_keys=True)
        previous_hash = self.cluster["h"]
        chain_hash = hashlib.sha1(f"{previous_hash}{offset}{kind}{body}".encode(), usedforsecurity=False).hexdigest()
        self.log.append(TailedRecord(offset, chain_hash, kind, now_ms, json.loads(body), previous_hash))
        self.cluster |= {"mo": offset, "h": chain_hash}
        return offset

    def entry(self, offset: int) -> TailedRecord | None:
        """The record at an offset; None if it is absent or was trimmed."""
        if not self.log or offset < self.log[0].offset or offset > self.log[-1].offset:
            return None
        return self.log[offset - self.log[0].offset]


@dataclass(slots=True, frozen=True)
class _Done:
    """An executed call, and the log's end after it."""

    request: StoreRequest
    now_ms: int
    offset: int


class SimStore:
    """The store. `call` is atomic like a script call in Redis: a refused call changes nothing."""

    def __init__(self) -> None:
        self.state = StoreState()
        self.up = True
        self.unsafe: tuple[str, ...] = ()
        self._boots = 1
        self._journal: list[_Done] = []

    @property
    def process_id(self) -> str:
        """Differs after each restart."""
        return f"sim-store-{self._boots}"

    def call(self, request: StoreRequest, now_ms: int) -> StoreOutcome:
        """Run a script at `now_ms`. The store must be `up`."""
        assert self.up, "the caller knows that the store is down"
        outcome = _run(self.state, request, now_ms)
        if outcome.code == "OK" and request.script not in _NOT_JOURNALLED:
            self._journal.append(_Done(request, now_ms, outcome.offset))
        return outcome

    def records_after(self, offset: int, limit: int = 500) -> list[TailedRecord]:
        """Records after `offset`, in order; if they were trimmed, the snapshot comes first."""
        state = self.state
        if not state.log:
            return []
        first = state.log[0].offset
        if offset + 1 < first and state.snapshot is not None:
            rest = self.records_after(state.snapshot.offset, limit - 1)
            return [state.snapshot, *rest]
        start = max(0, offset + 1 - first)
        return state.log[start : start + limit]

    def saved(self) -> tuple[StoreState, list[_Done]]:
        """A copy of the whole content, for `bring_back`."""
        return copy.deepcopy(self.state), list(self._journal)

    def bring_back(self, saved: tuple[StoreState, list[_Done]]) -> None:
        """Start again with saved content (an operator's restore)."""
        self.state, self._journal = saved
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
            again = _run(self.state, done.request, done.now_ms)
            assert (again.code, again.offset) == ("OK", done.offset), "the same calls have the same effects"
        self._boots += 1

    def flush_all(self) -> None:
        """Delete everything (`FLUSHALL`)."""
        self.state = StoreState()
        self._journal.clear()


def _run(state: StoreState, request: StoreRequest, now_ms: int) -> StoreOutcome:
    script = SCRIPTS.get(request.script)
    if script is None:
        return StoreOutcome("BAD_REQUEST", value={"message": f"no script {request.script}"})
    try:
        arguments = request.arguments
        if request.script == "seed_begin":
            arguments = arguments | {"history": _history_code(state, request)}
        elif request.script not in _OWN_CHECKS:
            _check_history(state, request)
        value = script(state, arguments, now_ms)
        code = "OK"
    except Refused as refusal:
        code, value = refusal.code, refusal.value
    # the result must not share objects with the store, and must survive JSON
    return StoreOutcome(code, state.cluster.get("mo", 0), state.cluster.get("h", ""), json.loads(json.dumps(value)))


def _history_code(state: StoreState, request: StoreRequest) -> str:
    try:
        _check_history(state, request)
    except Refused as refusal:
        return refusal.code
    return "OK"


def _check_history(state: StoreState, request: StoreRequest) -> None:
    cluster, asker = state.cluster, request.arguments
    if not cluster:
        raise Refused("NO_CLUSTER")
    if asker.get("cluster_id") and asker["cluster_id"] != cluster["cluster_id"]:
        raise Refused("WRONG_CLUSTER", cluster_id=cluster["cluster_id"])
    if cluster["state"] != "LIVE":
        raise Refused("SEEDING")
    if asker.get("incarnation_id") and asker["incarnation_id"] != cluster["incarnation_id"]:
        raise Refused("WRONG_INCARNATION", **incarnation_for(state, asker))
    if cluster["mo"] < request.known_offset:
        raise Refused("REGRESSED")
    if request.known_offset > 0:
        entry = state.entry(request.known_offset)
        if entry is None and state.snapshot is not None and state.snapshot.offset == request.known_offset:
            # a restored or trimmed history begins with a snapshot
            entry = state.snapshot
        following = state.entry(request.known_offset + 1)
        if entry is None and following is not None and following.previous_hash == request.known_hash:
            # a later trim replaced the snapshot, and all records after it may still be there
            return
        if entry is None or (entry is state.snapshot and entry.chain_hash != request.known_hash):
            raise Refused("TRIMMED")
        if entry.chain_hash != request.known_hash:
            raise Refused("FORKED")
