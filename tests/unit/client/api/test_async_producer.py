"""How long the end of an asynchronous producer's block waits for acknowledgements."""

from contextlib import suppress
from typing import Any

import pytest
import trio

import yak.trio
from tests.errors import raises_error
from yak.client.api.asynchronous import producer as module
from yak.client.api.producer import GRACE_S
from yak.errors import UsageError


class Handle:
    """Notes how long records may still be sent, in place of the blocking producer."""

    def __init__(self, *_: Any, **_options: Any) -> None:
        self.graces: list[float] = []

    def abandon(self, grace_s: float) -> None:
        self.graces.append(grace_s)


async def in_nurseries() -> None:
    """Trio's nurseries raise a cancellation in a group, each in one of its own."""
    async with trio.open_nursery(), trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)


async def failing() -> None:
    raise LookupError


@pytest.mark.parametrize(
    ("work", "expected_s"), [(trio.sleep_forever, GRACE_S), (in_nurseries, GRACE_S), (failing, 20.0)]
)
async def test_end_of_a_block_waits_for_acknowledgements_unless_it_is_cancelled(work, expected_s, monkeypatch):
    monkeypatch.setattr(module, "Producer", Handle)
    producer = yak.trio.Producer(delivery_timeout=20.0)
    with trio.move_on_after(0.01), suppress(LookupError):
        async with producer:
            await work()
    made: Any = producer._begun
    assert made.graces == [expected_s]


@pytest.mark.parametrize("kind", ["client", "consumer", "producer"])
async def test_second_block_of_one_object_is_refused(kind: str) -> None:
    """What the first one made would stay open."""
    made: Any = getattr(yak.trio, kind.capitalize())()
    setattr(made, f"_{kind}", object())
    with raises_error(UsageError, "usage", match=f"^this {kind} has begun already"):
        await made.__aenter__()
