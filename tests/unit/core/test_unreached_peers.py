"""A broker that others cannot reach, as with a wrong advertised address: they log it."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.contexts import StubContext
from yak.core.events import PeerConnected, PeerLost
from yak.core.peers import UNREACHED_MS, Peers

OWNER: Any = SimpleNamespace(on_connected=lambda peer_id: None, on_lost=lambda peer_id, how, reason: None)
LOGGED = ("warning", "peer-connect-failed", {"node_id": 7, "address": "[fd77::7]:9092", "reason": "no answer"})


class Bench:
    """Connects of this broker to another one, and what it logs."""

    def __init__(self) -> None:
        self.clock = SimpleNamespace(now_ms=1_000)
        self.other: Any = SimpleNamespace(node_id=7, broker_epoch=0, host="fd77::7", port=9092)
        self.notices: list[tuple[str, str, dict[str, object]]] = []
        context: Any = StubContext(clock=self.clock, notice=self.notice, emit=lambda effect: None)
        self.peers = Peers(context, SimpleNamespace(), SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]

    def notice(self, level: str, event: str, **fields: object) -> None:
        self.notices.append((level, event, fields))

    def fail_for(self, seconds: int) -> None:
        """One failed connect at each second's begin and end."""
        for second in range(seconds + 1):
            self.clock.now_ms += 1_000 if second else 0
            self.peers.on_lost(PeerLost(self.peers.open(self.other, OWNER), "timeout", "no answer"))

    def connect(self) -> int:
        peer_id = self.peers.open(self.other, OWNER)
        self.peers.on_connected(PeerConnected(peer_id))
        return peer_id


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_broker_that_cannot_be_reached_for_10_s_is_logged_once_with_address_and_reason(bench):
    bench.fail_for(UNREACHED_MS // 1000 - 1)
    assert bench.notices == []
    bench.fail_for(30)
    assert bench.notices == [LOGGED]


def test_broker_that_is_reached_and_then_lost_is_logged_after_another_10_s(bench):
    bench.fail_for(9)
    peer_id = bench.connect()
    bench.clock.now_ms += UNREACHED_MS
    bench.peers.on_lost(PeerLost(peer_id, "closed", "the peer closed the connection"))
    bench.fail_for(9)
    assert bench.notices == []
    bench.fail_for(1)
    assert bench.notices == [LOGGED]


def test_broker_that_changes_its_address_to_another_that_cannot_be_reached_is_logged_again(bench):
    bench.fail_for(12)
    bench.other = SimpleNamespace(node_id=7, broker_epoch=1, host="nosuch.example", port=9092)
    bench.fail_for(12)
    assert [fields["address"] for _, _, fields in bench.notices] == ["[fd77::7]:9092", "nosuch.example:9092"]


def test_failed_connect_long_after_an_earlier_one_is_not_logged(bench):
    """The other broker was fenced, so that nothing connected to it, and is back before it listens."""
    bench.fail_for(5)
    bench.clock.now_ms += UNREACHED_MS
    bench.fail_for(1)
    assert bench.notices == []
