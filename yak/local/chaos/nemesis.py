"""The nemesis: injects faults, and repairs them."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from yak.errors import YakError
from yak.local import processes
from yak.local.chaos.clients import Clients
from yak.local.chaos.cluster import ChaosCluster
from yak.local.chaos.node import Node
from yak.local.chaos.recorder import Recorder
from yak.local.chaos.schedule import PlannedFault
from yak.local.metadata_restore import LIVE, RestoreStore

_EVERY_SECONDS: Final = 1.0


class Operator:
    """Call `check` often; it acts about once a second, and only after `store_was_emptied`."""

    def __init__(self, redis_url: str) -> None:
        self._redis_url = redis_url
        self._emptied_at: float | None = None
        self._checked_at = 0.0
        self.restores: list[str] = []
        """A description of each completed restore."""

    @property
    def is_waiting(self) -> bool:
        return self._emptied_at is not None

    def store_was_emptied(self) -> None:
        """Watch the store from now on until it has its history again."""
        self._emptied_at = self._emptied_at or time.monotonic()

    def check(self) -> None:
        """Restore the store if all brokers have offered and nothing can be lost."""
        now = time.monotonic()
        if self._emptied_at is None or now - self._checked_at < _EVERY_SECONDS:
            return
        self._checked_at = now
        try:
            with RestoreStore(self._redis_url, timeout_s=2.0) as store:
                found = store.find()
                if found.state == LIVE:
                    self.restores.append(f"in {now - self._emptied_at:.1f} s, incarnation {found.before.incarnation}")
                    self._emptied_at = None
                elif found.offers and (plan := found.plan()).is_safe:
                    store.commit(found, plan)
        except YakError:
            return  # the store does not answer now, or a broker offered meanwhile


ENDING_SECONDS: Final = 1.0
"""A process counts as ended before its last thread is, and has its exit code then."""
_RESPAWN_SECONDS: Final = 1.0


@dataclass(slots=True)
class InjectedFault:
    """A fault that was injected. Times are the recorder's; `mended_s` is None while it lasts."""

    planned: PlannedFault
    began_s: float
    repaired_s: float | None = None
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.planned.number,
            "kind": self.planned.kind,
            "what": self.planned.description(),
            "began_s": round(self.began_s, 2),
            "mended_s": None if self.repaired_s is None else round(self.repaired_s, 2),
            "note": self.note,
        }


@dataclass(slots=True)
class Nemesis:
    """Carries out planned faults. Without an own cluster only clients can be faulted."""

    cluster: ChaosCluster | None
    clients: Clients
    recorder: Recorder
    operator: Operator | None = None
    injected: list[InjectedFault] = field(default_factory=list)
    ended_by_themselves: list[str] = field(default_factory=list)
    _restarts: dict[int, float] = field(default_factory=dict)
    """Brokers that ended unexpectedly, and when each is restarted (`time.monotonic`)."""
    _to_start: set[int] = field(default_factory=set)

    def strike(self, fault: PlannedFault) -> InjectedFault:
        found = InjectedFault(fault, self.recorder.now())
        self.injected.append(found)
        try:
            found.note = self._breaks()[fault.kind](fault) or ""
        except (OSError, YakError) as error:
            found.note = f"not done: {error}"
        return found

    def repair(self, found: InjectedFault) -> None:
        with contextlib.suppress(OSError, YakError):
            repair = self._repairs().get(found.planned.kind)
            if repair is not None:
                repair(found.planned)
        found.repaired_s = self.recorder.now()

    def repair_all(self) -> None:
        for found in self.injected:
            if found.repaired_s is None:
                self.repair(found)
        if self.cluster is not None:
            self.cluster.reconnect()

    def check(self) -> None:
        """Restart brokers that ended unexpectedly, as a service manager does, and let the operator check the store."""
        if self.cluster is None:
            return
        for node in self.cluster.nodes.values():
            if node.node_id in self._to_start:
                self._start_when_gone(node)
            elif node.is_wanted and not node.is_running:
                self._bring_back(node)
            else:
                self._restarts.pop(node.node_id, None)
                if not node.is_running:
                    node.proxy.refuse()
        if self.operator is not None:
            self.operator.check()

    def _start_when_gone(self, node: Node) -> None:
        if node.is_late:
            self.ended_by_themselves.append(f"at {self.recorder.now():.1f} s {node.late_stop()}")
            node.kill9()
        if not node.is_running:
            self._to_start.discard(node.node_id)
            node.proxy.refuse()
            node.spawn()

    def _bring_back(self, node: Node) -> None:
        start_at = self._restarts.get(node.node_id)
        if start_at is None:
            code = node.end_code(ENDING_SECONDS)
            how = "is stopping by itself" if code is None else f"ended by itself with code {code}"
            self.ended_by_themselves.append(f"{node.name} {how} at {self.recorder.now():.1f} s")
            node.proxy.refuse()
            self._restarts[node.node_id] = time.monotonic() + _RESPAWN_SECONDS
        elif time.monotonic() > start_at:
            del self._restarts[node.node_id]
            node.spawn()

    # ----------------------------------------------------------------------------------------------------- faults

    def _breaks(self) -> dict[str, Callable[[PlannedFault], str | None]]:
        return {
            "kill": lambda fault: self._each(fault, Node.kill9),
            "pause": lambda fault: self._each(fault, _pause),
            "restart": lambda fault: self._each(fault, Node.begin_stop),
            "cut": self._cut,
            "oneway": self._oneway,
            "delay": self._delay,
            "slow": self._slow,
            "disk": self._fill,
            "redis-kill": lambda _fault: self._require().kill_redis(),
            "redis-pause": lambda _fault: self._require().pause_redis(is_paused=True),
            "redis-empty": self._empty,
            "move": lambda _fault: self._require().move_metadata(),
            "clients": lambda fault: f"{self.clients.replace(fault.how['who'], fault.how['which'])} died",
        }

    def _repairs(self) -> dict[str, Callable[[PlannedFault], Any]]:
        def reconnect(_fault: PlannedFault) -> None:
            self._require().reconnect()

        return {
            "kill": lambda fault: self._each(fault, Node.spawn),
            "pause": lambda fault: self._each(fault, _resume),
            "restart": lambda fault: self._to_start.update(fault.nodes),
            "cut": reconnect,
            "oneway": reconnect,
            "delay": reconnect,
            "slow": reconnect,
            "disk": self._free,
            "redis-kill": lambda _fault: self._require().start_redis(),
            "redis-empty": lambda _fault: self._require().start_redis(),
            "redis-pause": lambda _fault: self._require().pause_redis(is_paused=False),
        }

    def _require(self) -> ChaosCluster:
        assert self.cluster is not None, "parse_faults refuses this fault without processes of our own"
        return self.cluster

    def _each(self, fault: PlannedFault, do: Callable[[Node], object]) -> None:
        for node_id in fault.nodes:
            do(self._require().nodes[node_id])

    def _cut(self, fault: PlannedFault) -> None:
        for proxy, source in self._require().ends(fault.nodes[0], fault.how["from"]):
            (proxy.cut if fault.how["by"] == "reset" else proxy.hold)(source)

    def _oneway(self, fault: PlannedFault) -> None:
        (node_id,) = fault.nodes
        route = next(iter(self._require().routes(node_id, fault.how["peer"])))
        (route.to_target if fault.how["lost"] == "to" else route.to_source).hold()

    def _delay(self, fault: PlannedFault) -> None:
        for route in self._require().routes(fault.nodes[0], fault.how["peers"]):
            route.to_target.delay_seconds = route.to_source.delay_seconds = fault.how["seconds"] / 2

    def _slow(self, fault: PlannedFault) -> None:
        for route in self._require().routes(fault.nodes[0], fault.how["peers"]):
            route.to_target.bytes_per_second = route.to_source.bytes_per_second = fault.how["bytes_per_second"]

    def _fill(self, fault: PlannedFault) -> str | None:
        node = self._require().nodes[fault.nodes[0]]
        if node.process is None:
            return "it did not run"
        node.disk.fill(node.process)
        return None

    def _free(self, fault: PlannedFault) -> None:
        """Free the disk and restart the broker: a directory that went offline is used again only after a start."""
        node = self._require().nodes[fault.nodes[0]]
        node.disk.free(node.process)
        node.kill9()
        node.spawn()

    def _empty(self, fault: PlannedFault) -> str | None:
        assert self.operator is not None
        if self.operator.is_waiting:
            return "not done: what it lost before is not restored"
        self._require().empty_redis(by_restart=fault.how["by"] == "restart")
        self.operator.store_was_emptied()
        return None


def _pause(node: Node) -> None:
    if node.process is not None:
        processes.pause(node.process)


def _resume(node: Node) -> None:
    if node.process is not None:
        processes.resume(node.process)
