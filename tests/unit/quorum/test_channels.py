"""The quorum's lanes to another node, over fake connections."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.contexts import StubContext
from yak.core.broker_channel import ANSWER_MS_MAX
from yak.core.timers import Timers
from yak.quorum.channels import QuorumChannels
from yak.quorum.transport import ENVELOPE, VOTE, Address

OTHER = Address(2, "localhost", 9092)
ENVELOPED: dict[str, Any] = {"request_data": b"", "request_principal": None, "client_host_address": b""}
ASKED: dict[str, Any] = {"cluster_id": None, "voter_id": 2, "topics": []}


class FakePeers:
    """Connections that are accepted and proven at once, and carry no answer."""

    def __init__(self) -> None:
        self.owners: list[Any] = []
        self.sent: list[int] = []
        self.rng = SimpleNamespace(below=lambda _bound: 0)

    def open(self, _address: Any, owner: Any) -> int:
        self.owners.append(owner)
        return len(self.owners)

    def prove(self) -> None:
        self.owners[-1].on_connected(len(self.owners))
        self.owners[-1].on_proven(len(self.owners))

    def send(self, peer_id: int, _parts: list[bytes]) -> None:
        self.sent.append(peer_id)

    def close(self, peer_id: int) -> None:
        """A closed connection."""


def make() -> tuple[SimpleNamespace, Timers, FakePeers, QuorumChannels]:
    clock, timers, peers = SimpleNamespace(now_ms=1_000), Timers(), FakePeers()
    image = SimpleNamespace(brokers={})
    context: Any = StubContext(clock=clock, image=image, timers=timers, notice=lambda *_args, **_fields: None)
    return clock, timers, peers, QuorumChannels(context, peers)  # type: ignore[arg-type]


def test_lane_to_an_unreachable_node_connects_only_to_send():
    """A voter that was removed, or that has another address, is never called there again."""
    clock, timers, peers, channels = make()
    answers: list[Any] = []
    channels.send(OTHER, VOTE, ASKED, answers.append)
    peers.owners[-1].on_lost(1, "refused", "")
    assert answers == [None]
    for _ in range(60):
        clock.now_ms += 1_000
        timers.run_due(clock.now_ms)
    assert len(peers.owners) == 1
    channels.send(OTHER, VOTE, ASKED, answers.append)
    assert len(peers.owners) == 2
    peers.prove()
    assert peers.sent == [2]


@pytest.mark.parametrize(
    ("api_key", "fields", "limit_ms"), [(VOTE, ASKED, 2_000), (ENVELOPE, ENVELOPED, 5_000)], ids=["votes", "commands"]
)
def test_lane_without_an_answer_reconnects_long_before_other_channels(api_key, fields, limit_ms):
    """A connection that was silent during an outage of the network may stay silent for as long after it."""
    clock, timers, peers, channels = make()
    answers: list[Any] = []
    channels.send(OTHER, api_key, fields, answers.append)
    peers.prove()
    assert peers.sent == [1]
    clock.now_ms += limit_ms - 1
    timers.run_due(clock.now_ms)
    assert answers == []
    clock.now_ms += 1
    timers.run_due(clock.now_ms)
    assert answers == [None]
    channels.send(OTHER, api_key, fields, answers.append)
    peers.prove()
    assert peers.sent == [1, 2]
    assert limit_ms < ANSWER_MS_MAX
