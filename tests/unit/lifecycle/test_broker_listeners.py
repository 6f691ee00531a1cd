"""A broker that lacks the listener which the others use between brokers."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from yak.cluster.image import BrokerInfo, Image
from yak.cluster.records import BrokerState
from yak.cluster.registration import Identity
from yak.config.listeners import Listener, SecurityProtocol
from yak.core.events import ConnectPeer
from yak.core.peers import Peers
from yak.lifecycle.broker_listeners import BrokerListeners

INTERNAL = Listener("INTERNAL", SecurityProtocol.SSL, "here", 1)
EXTERNAL = Listener("EXTERNAL", SecurityProtocol.PLAINTEXT, "there", 9)
OWN = Identity(1, "boot", (), "here", 1, inter_broker=INTERNAL)


def info(node_id: int, *endpoints: Listener, state: BrokerState = BrokerState.ACTIVE) -> BrokerInfo:
    return BrokerInfo(node_id, 5, "boot", (), "other", 2, None, "leader", state, endpoints=endpoints)


class Checks:
    def __init__(self) -> None:
        self.notices: list[tuple[str, dict[str, Any]]] = []
        self.context: Any = SimpleNamespace(image=Image(), notice=self.notice)
        self.listeners = BrokerListeners(self.context, OWN)

    def notice(self, level: str, event: str, **fields: Any) -> None:
        assert (level, event) == ("warning", "inter-broker-listener-missing")
        self.notices.append((fields["why"], fields))

    def look(self, *brokers: BrokerInfo) -> list[str]:
        self.context.image = Image(brokers={each.node_id: each for each in brokers})
        before = len(self.notices)
        self.listeners.check()
        return [why for why, _ in self.notices[before:]]


def test_broker_without_the_listener_is_logged_once_until_it_changes() -> None:
    checks = Checks()
    lacking = info(2, EXTERNAL)
    assert checks.look(info(1, EXTERNAL), lacking) == ["it advertises no listener INTERNAL"]
    assert checks.notices[0][1]["node_id"] == 2
    assert checks.look(lacking, info(3, INTERNAL)) == []
    assert checks.look(info(2, INTERNAL)) == []
    assert checks.look(lacking) == ["it advertises no listener INTERNAL"]


def test_listener_of_another_security_protocol_is_logged() -> None:
    plain = replace(INTERNAL, security_protocol=SecurityProtocol.PLAINTEXT)
    assert Checks().look(info(2, plain)) == ["its listener INTERNAL is PLAINTEXT, not SSL"]


def test_broker_without_named_listeners_has_plaintext_only() -> None:
    assert Checks().look(info(2)) == ["it advertises no listener INTERNAL"]


@pytest.mark.parametrize("state", [BrokerState.FENCED, BrokerState.CLOSED])
def test_broker_that_is_not_active_is_not_logged(state: BrokerState) -> None:
    assert Checks().look(info(2, EXTERNAL, state=state)) == []


@pytest.mark.parametrize(
    ("broker", "address"),
    [
        (info(2, EXTERNAL, replace(INTERNAL, host="inside", port=7)), ("inside", 7)),
        (info(2, EXTERNAL), ("other", 2)),
        (SimpleNamespace(node_id=2, broker_epoch=0, host="voter", port=3), ("voter", 3)),
    ],
)
def test_peer_is_called_at_its_listener_of_the_same_name(broker: Any, address: tuple[str, int]) -> None:
    effects: list[Any] = []
    context: Any = SimpleNamespace(emit=effects.append)
    peers = Peers(context, Any, Any, Any, None, INTERNAL)  # type: ignore[arg-type]
    peers.open(broker, Any)  # type: ignore[arg-type]
    assert effects == [ConnectPeer(1, *address)]
