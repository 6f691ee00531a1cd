"""Requests of one broker to another over HTTP, with the other end of the connection in the test."""

import socket
from dataclasses import replace
from types import SimpleNamespace

import pytest
import trio
from trio.testing import memory_stream_pair

from tests.unit.server.http.fake_context import context_of, image_of
from yak.server.http import other_brokers
from yak.server.http.authentication import CALLER, Caller
from yak.server.http.problems import Problem

ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\n{}"


async def test_authorization_that_is_no_ascii_is_sent_as_the_client_sent_it(monkeypatch):
    """curl sends a token in the terminal's encoding, and Starlette decodes headers as Latin-1."""
    sent = "Bearer pässwörd".encode()
    here, there = memory_stream_pair()
    received = bytearray()

    async def connect(*_):
        return here

    async def answer():
        while b"\r\n\r\n" not in received:
            received.extend(await there.receive_some())
        await there.send_all(ANSWER)

    monkeypatch.setattr(other_brokers, "_connect", connect)
    context = context_of(image_of({}, http_port=8080), None)
    context.broker.peers = SimpleNamespace(secret=None)
    CALLER.set(Caller("User:ann", sent.decode("latin-1")))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        found = await other_brokers.ask_broker(context, context.broker.image.brokers[2], "POST", "/api/x")
    assert (found.status, await found.json(context)) == (202, {})
    assert b"\r\nauthorization: " + sent + b"\r\n" in received


async def ask(host: str, port: int) -> str:
    """The message of the problem that a request to a broker at this address ends in."""
    context = context_of(image_of({}), None)
    broker = replace(context.broker.image.brokers[2], host=host, http_port=port)
    with pytest.raises(Problem) as raised:
        await other_brokers.ask_broker(context, broker, "GET", "/api/x")
    assert (raised.value.status, raised.value.error) == (503, "broker-unreachable")
    return raised.value.message


async def test_broker_that_refuses_the_connection_is_named_with_the_reason():
    with socket.socket() as held:  # bound, and not listening
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        found = await ask("127.0.0.1", port)
    assert found == f"broker 2 did not answer: Connection refused (127.0.0.1:{port})"


async def test_broker_that_does_not_accept_in_time_is_named_with_the_reason(monkeypatch):
    async def connect(*_):
        await trio.sleep_forever()

    monkeypatch.setattr(other_brokers, "_connect", connect)
    monkeypatch.setattr(other_brokers, "CONNECT_SECONDS", 0.01)
    assert await ask("::1", 8080) == "broker 2 did not answer: the connection timed out ([::1]:8080)"


async def test_broker_whose_name_does_not_resolve_is_named_with_the_reason(monkeypatch):
    async def resolve(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(trio.socket, "getaddrinfo", resolve)
    why = 'the name "no.such.host" does not resolve (Name or service not known)'
    assert await ask("no.such.host", 8080) == f"broker 2 did not answer: {why} (no.such.host:8080)"
