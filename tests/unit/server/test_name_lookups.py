"""Lookups of names that hang or cannot begin."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from tests.unit.server.threads import start_no_thread
from yak.server.name_lookups import NameLookups
from yak.server.peer_connect import NotConnectedError, connect_peer

ANSWER = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 9))]


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Lookups of names that start with "hangs" end when it is set."""
    ended = threading.Event()

    def look_up(host: str | bytes, *_: object, **__: object) -> Any:
        if host == "127.0.0.1":
            return ANSWER
        if isinstance(host, str):
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        if host.startswith(b"hangs"):
            ended.wait(20)
        return ANSWER

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield ended
    ended.set()


async def test_hung_lookups_of_peers_leave_the_threads_of_other_work_and_other_names_free(over):
    trio.socket.set_custom_hostname_resolver(NameLookups())
    began = threading.active_count()
    async with trio.open_nursery() as nursery:
        for attempt in range(60):
            nursery.start_soon(fails, f"hangs{attempt % 5}.example")
    assert threading.active_count() - began <= 5 * 4 + 1
    with trio.fail_after(5):
        assert await trio.to_thread.run_sync(lambda: "page") == "page"
        assert await trio.socket.getaddrinfo("other.example", 9) == ANSWER
        over.set()
        assert await trio.socket.getaddrinfo("hangs1.example", 9) == ANSWER


async def fails(host: str) -> None:
    with pytest.raises(NotConnectedError) as caught:
        await connect_peer(host, 9092, 0.3)
    assert caught.value.how == "timeout"


async def test_peer_is_unreachable_while_the_system_starts_no_thread(over, monkeypatch):
    trio.socket.set_custom_hostname_resolver(NameLookups())
    start_no_thread(monkeypatch, times=100)
    with pytest.raises(NotConnectedError) as caught:
        await connect_peer("other.example", 9092, 1.0)
    assert (caught.value.how, over.is_set()) == ("unreachable", False)
