"""Requests of one broker to another over HTTP, with the other end of the connection in the test."""

from types import SimpleNamespace

import trio
from trio.testing import memory_stream_pair

from tests.unit.server.http.fake_context import context_of, image_of
from yak.server.http import other_brokers
from yak.server.http.authentication import CALLER, Caller

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
