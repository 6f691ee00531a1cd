"""A failure watch over a fake broker, whose `now_ms` is its clock."""

from types import SimpleNamespace
from typing import Any

from tests.unit.contexts import StubContext
from yak.cluster.image import BrokerInfo
from yak.cluster.records import BrokerState
from yak.core.timers import Timers
from yak.lifecycle.failure_watch import FailureWatch

LEADER, HERE = 1, 2
"""The controller, and the broker that watches."""


class FakePeers:
    """Keeps what is opened and sent."""

    def __init__(self) -> None:
        self.opened = 0
        self.sent: list[tuple[int, int]] = []

    def open(self, info: BrokerInfo, owner: Any) -> int:
        self.opened += 1
        return self.opened

    def send(self, peer_id: int, parts: Any) -> None:
        frame = b"".join(parts)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        self.sent.append((peer_id, int.from_bytes(frame[8:12], "big", signed=True)))

    def close(self, peer_id: int) -> None: ...


class FakeSuspectedBrokers:
    """Suspected brokers, without time."""

    def __init__(self) -> None:
        self.held: dict[int, None] = {}

    def add(self, node_id: int) -> None:
        self.held[node_id] = None

    def clear(self, node_id: int) -> None:
        self.held.pop(node_id, None)

    def has(self, node_id: int) -> bool:
        return node_id in self.held

    def lead(self, leaders: Any) -> bool:
        return any(node_id in leaders() for node_id in self.held)


def make_broker(*others: int) -> Any:
    """A broker whose image has these others."""
    infos = {
        node_id: BrokerInfo(node_id, 5, "boot", ("a",), "h", 9092, None, "leader", BrokerState.ACTIVE)
        for node_id in (HERE, *others)
    }
    return SimpleNamespace(
        node_id=HERE,
        now_ms=1_000,
        image=SimpleNamespace(controller_id=LEADER, brokers=infos, offset=7),
        peers=FakePeers(),
        purgatory=SimpleNamespace(),
        suspected_brokers=FakeSuspectedBrokers(),
        rng=SimpleNamespace(below=lambda bound: 0),
        notice=lambda *words, **fields: None,
        dead=[],
        timers=Timers(),
    )


def context_of(broker: Any) -> Any:
    return StubContext(clock=broker, image=broker.image, timers=broker.timers, notice=broker.notice)


def watch_of(broker: Any) -> FailureWatch:
    """A watch that adds the node id and the epoch of each dead broker to `broker.dead`."""
    watch = FailureWatch(
        context_of(broker),
        broker.node_id,
        broker.peers,
        broker.rng,
        broker.suspected_brokers,
        lambda *who: broker.dead.append(who),
    )
    watch.image_changed(SimpleNamespace(brokers_changed={LEADER}, controller_changed=True))  # type: ignore[arg-type]
    return watch
