"""HTTPS: requests, events that are sent at once, and clients that speak something else."""

import socket
import ssl
from pathlib import Path

import httpx
import pytest
import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.unit.security.identities import Identities
from tests.unit.server.http.rig import serving
from yak.server.http.bodies import body_pieces
from yak.server.http.context import Context
from yak.server.http.events.listeners import Listener
from yak.server.http.route import Route
from yak.server.http.timed_stream import STREAM
from yak.server.tls_listener import ListenerTls

LARGE = b"x" * 3_000_000


async def state(_context: Context, request: Request) -> Response:
    stream = request.scope["state"][STREAM]
    return JSONResponse({"scheme": request.url.scheme, "principal": stream.principal})


async def large(_context: Context, _request: Request) -> Response:
    return Response(LARGE)


async def count(context: Context, request: Request) -> Response:
    total = 0
    async for piece in body_pieces(context, request, bytes_max=None):
        total += len(piece)
    return JSONResponse(total)


async def sent_now(_context: Context, request: Request) -> Response:
    stream = request.scope["state"][STREAM]
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n"
    assert stream.send_now(answer) == len(answer)
    left = 1_000_000
    while left:
        taken = stream.send_now(b"y" * min(left, 50_000))
        left -= taken
        await trio.sleep(0 if taken else 0.001)
    await trio.sleep_forever()
    raise AssertionError


async def listened(_context: Context, request: Request) -> Response:
    """An event that the socket does not take at once; no other event follows."""
    stream = request.scope["state"][STREAM]
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    listener = Listener(stream.send_now, 1)
    listener.offer(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(LARGE) + LARGE)
    while listener.is_behind:
        await trio.sleep(0.001)
        listener.drain()
    await trio.sleep_forever()
    raise AssertionError


ROUTES = (
    Route("GET", "/state", state, "x", "T"),
    Route("GET", "/large", large, "x", "T"),
    Route("POST", "/count", count, "x", "T"),
    Route("POST", "/early", state, "x", "T"),
    Route("GET", "/now", sent_now, "x", "T"),
    Route("GET", "/listened", listened, "x", "T"),
)


def https(known: Identities, **configs: str) -> ListenerTls:
    return ListenerTls("HTTP", known.configs | {name.replace("_", "."): value for name, value in configs.items()},
                       uses_sasl=True)  # fmt: skip


def client(known: Identities, port: int, *, certificate: bool = False) -> httpx.AsyncClient:
    context = ssl.create_default_context(cafile=known.ca)
    if certificate:
        context.load_cert_chain(known.client)
    return httpx.AsyncClient(base_url=f"https://localhost:{port}", verify=context, trust_env=False, timeout=20)


async def test_requests_answers_and_large_bodies_cross_tls(known: Identities) -> None:
    async with serving(ROUTES, tls=https(known)) as rig, client(known, rig.port) as asking:
        assert (await asking.get("/state")).json() == {"scheme": "https", "principal": "User:ANONYMOUS"}
        assert (await asking.get("/large")).content == LARGE
        assert (await asking.post("/count", content=LARGE)).json() == len(LARGE)
        assert rig.context.scheme == "https"
        assert not [event for _, event, _ in rig.log.lines]


async def test_answer_before_the_end_of_a_large_body_arrives(known: Identities) -> None:
    async with serving(ROUTES, tls=https(known)) as rig, client(known, rig.port) as asking:
        answer = await asking.post("/early", content=LARGE)
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")


async def test_bytes_that_are_sent_at_once_arrive_whole(known: Identities) -> None:
    async with serving(ROUTES, tls=https(known)) as rig:
        async with client(known, rig.port) as asking, asking.stream("GET", "/now") as answer:
            body = await answer.aread()
        assert body == b"y" * 1_000_000


async def test_large_event_arrives_whole_without_another_event(known: Identities) -> None:
    async with serving(ROUTES, tls=https(known)) as rig:
        with trio.fail_after(5):
            async with client(known, rig.port) as asking, asking.stream("GET", "/listened") as answer:
                body = await answer.aread()
        assert body == LARGE


async def test_certificate_of_a_client_is_its_principal(known: Identities) -> None:
    configs = {"listener.name.http.ssl.client.auth": "required"}
    tls = ListenerTls("HTTP", known.configs | configs, uses_sasl=True)
    async with serving(ROUTES, tls=tls) as rig:
        async with client(known, rig.port, certificate=True) as asking:
            assert (await asking.get("/state")).json()["principal"] == "User:CN=alice,O=YAK"
        async with client(known, rig.port) as asking:
            with pytest.raises(httpx.HTTPError):
                await asking.get("/state")
        await rig.until_alone()
        assert [event for _, event, _ in rig.log.lines] == ["http-tls-refused"]


async def test_plain_request_is_answered_with_the_remedy(known: Identities) -> None:
    async with serving(ROUTES, tls=https(known)) as rig:
        answer = await rig.ask(b"GET /state HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b'"error":"tls-needed"' in answer
        assert b"https://" in answer


async def test_client_that_does_not_shake_hands_is_closed_in_time(known: Identities) -> None:
    async with serving(ROUTES, tls=https(known)) as rig:
        rig.context.limits.head_deadline_ms = 50
        assert await rig.ask(b"") in (b"", b"(reset)")
        await rig.until_alone()


async def test_renewed_certificate_is_used_for_new_connections(tmp_path: Path) -> None:
    from tests.unit.security.identities import make
    from yak.security.certificates import create_certificates

    own = make(tmp_path / "certs", hosts=["elsewhere.example"])
    tls = https(own)
    async with serving(ROUTES, tls=tls) as rig:
        async with client(own, rig.port) as asking:
            with pytest.raises(httpx.ConnectError):
                await asking.get("/state")
        from datetime import UTC, datetime

        create_certificates(str(own.folder), ["localhost"], 9, [], force=True, now=datetime.now(UTC))
        assert tls.reload()
        async with client(own, rig.port) as asking:
            assert (await asking.get("/state")).status_code == 200
