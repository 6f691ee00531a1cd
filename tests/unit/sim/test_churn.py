"""The simulated client that creates, writes, reads and deletes a topic."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from kio.schema.errors import ErrorCode

from yak.sim.churn import TopicChurn
from yak.sim.clients import FETCH, Sender
from yak.sim.deliveries import Deliveries
from yak.sim.history import History
from yak.sim.recorder import Recorder
from yak.sim.world import World


class _Network:
    """Keeps the position of each fetch, and answers that it is out of range."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.world = SimpleNamespace(after=lambda _us, action: action())

    def send(self, api_key: int, _version: int, fields: dict[str, Any], done: Callable[[Any], None]) -> None:
        assert api_key == FETCH
        self.positions.append(fields["topics"][0]["partitions"][0]["fetch_offset"])
        if len(self.positions) < 3:
            result = SimpleNamespace(error_code=ErrorCode.offset_out_of_range)
            done(SimpleNamespace(responses=[SimpleNamespace(partitions=[result])]))


def _positions(losses: int) -> list[int]:
    network = _Network()
    deliveries = Deliveries(History([]), str, Recorder(World()))
    churn = TopicChurn(cast("Sender", network), deliveries, "churn", 1, lambda: losses)
    churn._read(5)
    return network.positions


def test_reader_begins_again_when_a_power_loss_took_what_it_has_read():
    assert _positions(losses=1) == [5, 0, 0]


def test_reader_stays_where_it_is_without_a_loss_so_that_the_run_is_found_stuck():
    assert _positions(losses=0) == [5, 5, 5]
