"""Bounds and deadlines of the HTTP port, made short; the broker behind it is none."""

import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import trio
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tests.unit.server.http.rig import Rig, read_all, refused, serving
from yak.errors import UsageError
from yak.local import ports
from yak.server.http.bodies import json_body
from yak.server.http.context import Context, HttpLimits
from yak.server.http.http_server import bind
from yak.server.http.route import Answer, Body, Route

BIG: Final = b"x" * (8 << 20)
PIECES: dict[str, trio.Event] = {}


async def echo(context: Context, request: Request) -> Response:
    async with json_body(context, request, hint="send JSON") as body:
        return Response(json.dumps(body).encode(), media_type="application/json")


async def big(_context: Context, _request: Request) -> Response:
    return Response(BIG)


async def slow(_context: Context, _request: Request) -> Response:
    PIECES["began"].set()
    await PIECES["go on"].wait()
    return Response(b"done")


async def endless(_context: Context, _request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"data: x\n\n"
                await trio.sleep(0.01)
        finally:
            PIECES["ended"].set()

    return StreamingResponse(pieces(), media_type="text/event-stream")


async def bug(_context: Context, _request: Request) -> Response:
    raise ZeroDivisionError("a secret of /usr/lib")


async def late_bug(_context: Context, _request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        raise ZeroDivisionError("a secret of /usr/lib")

    return StreamingResponse(pieces())


ROUTES: Final = (
    Route("POST", "/echo", echo, "says it again", "T", guard="change", body=Body({})),
    Route("GET", "/big", big, "much", "T"),
    Route("GET", "/slow", slow, "when told", "T"),
    Route("GET", "/endless", endless, "never ends", "T", answers={200: Answer("x", None, "text/event-stream")}),
    Route("GET", "/bug", bug, "our mistake", "T"),
    Route("GET", "/late-bug", late_bug, "our mistake, later", "T"),
)


@asynccontextmanager
async def running(**limits: int) -> AsyncIterator[Rig]:
    PIECES.update({word: trio.Event() for word in ("began", "go on", "ended")})
    async with serving(ROUTES, HttpLimits(**limits)) as rig:
        yield rig


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def post(body: bytes, *headers: str, declared: int | None = None) -> bytes:
    length = f"Content-Length: {len(body) if declared is None else declared}"
    return "\r\n".join(["POST /echo HTTP/1.1", "Host: localhost", length, *headers, "", ""]).encode() + body


async def said(stream: trio.SocketStream, end: bytes) -> bool:
    """Whether an answer comes that ends so; its head and its body may come apart."""
    received = b""
    with trio.move_on_after(5):
        while not received.endswith(end):
            received += await stream.receive_some(65536)
    return received.endswith(end)


def problem(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]


async def test_json_with_commas_in_strings_alone_is_taken_whatever_their_number() -> None:
    async with running(json_values_max=20) as rig:
        body = json.dumps({"a": ',"' * 100_000, "b": 1}).encode()
        assert (await rig.ask(post(body, "Connection: close"))).endswith(body)


async def test_large_bodies_are_parsed_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    parsing: list[int] = [0]
    most: list[int] = [0]

    def parse(raw: bytes, _limits: HttpLimits, _hint: str) -> object:
        parsing[0] += 1
        most[0] = max(most[0], parsing[0])
        time.sleep(0.02)
        parsing[0] -= 1
        return json.loads(raw)

    monkeypatch.setattr("yak.server.http.bodies.parse_json", parse)
    async with running() as rig:
        body = json.dumps("x" * 200_000).encode()
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(rig.ask, post(body, "Connection: close"))
    assert most == [1]


async def test_silent_connection_is_closed_without_an_answer() -> None:
    async with running(head_deadline_ms=50) as rig:
        assert await rig.ask(b"") == b""
        await rig.until_alone()
        assert rig.log.lines == []


async def test_a_head_that_trickles_is_ended_by_its_deadline() -> None:
    async with running(head_deadline_ms=100) as rig:
        async with await rig.connect() as stream:
            with trio.fail_after(5):
                try:
                    for byte in get("/big", *["X: y"] * 10_000):
                        await stream.send_all(bytes([byte]))
                        await trio.sleep(0.01)
                except trio.BrokenResourceError:
                    return
        raise AssertionError("it could go on for ever")


async def test_incomplete_head_is_answered_with_408() -> None:
    async with running(head_deadline_ms=100) as rig:
        assert problem(await rig.ask(b"GET /big HTTP/1.1\r\nHost: ")) == (408, "head-too-slow")
        assert problem(await rig.ask(b"P")) == (408, "head-too-slow")
        await rig.until_alone()


async def test_the_second_head_has_a_deadline_of_its_own() -> None:
    async with running(head_deadline_ms=200) as rig, await rig.connect() as stream:
        for _ in range(4):  # together longer than a head may take
            await stream.send_all(post(b"1"))
            assert await said(stream, b"1")
            await trio.sleep(0.1)
        await stream.send_all(b"GET /big")
        assert problem(await read_all(stream)) == (408, "head-too-slow")


async def test_a_connection_that_is_idle_between_requests_is_closed() -> None:
    async with running(idle_ms_max=100) as rig:
        async with await rig.connect() as stream:
            await stream.send_all(post(b"1"))
            answer = await read_all(stream)
        assert answer.endswith(b"1")
        await rig.until_alone()


@pytest.mark.parametrize("begun", [b"", b'{"a": '])
@pytest.mark.parametrize("expect", [(), ("Expect: 100-continue",)])
async def test_a_body_that_does_not_come_is_ended_by_its_deadline(begun: bytes, expect: tuple[str, ...]) -> None:
    async with running(body_deadline_ms=100) as rig:
        answer = await rig.ask(post(begun, *expect, declared=1000))
        if expect:
            go_on, _, answer = answer.partition(b"\r\n\r\n")
            assert go_on.startswith(b"HTTP/1.1 100 ")
        assert problem(answer) == (408, "body-too-slow")
        await rig.until_alone()
        assert rig.context.body_bytes_held == 0


async def test_a_body_that_trickles_is_ended_by_its_deadline() -> None:
    async with running(body_deadline_ms=100) as rig, await rig.connect() as stream:
        await stream.send_all(post(b"", declared=100_000))
        with trio.move_on_after(0.5):
            try:
                while True:
                    await stream.send_all(b" ")
                    await trio.sleep(0.01)
            except trio.BrokenResourceError:
                pass
        assert problem(await read_all(stream)) == (408, "body-too-slow")


async def test_a_body_is_held_once_and_given_back() -> None:
    async with running(body_in_flight_bytes_max=1000) as rig:
        async with await rig.connect() as first:
            await first.send_all(post(b'"' + b"a" * 900, declared=1000))
            with trio.fail_after(5):
                while rig.context.body_bytes_held < 900:  # noqa: ASYNC110
                    await trio.sleep(0.005)
            assert problem(await rig.ask(post(b'"' + b"a" * 198 + b'"', "Connection: close"))) == (503, "too-busy")
        await rig.until_alone()
        assert rig.context.body_bytes_held == 0
        assert (await rig.ask(post(b"[1]", "Connection: close"))).endswith(b"[1]")


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_over_the_bound_is_refused_and_the_answer_arrives(declared: bool) -> None:
    async with running(body_bytes_max=1000) as rig:
        body = b"1" * 500_000
        if declared:
            sent = post(body)
        else:
            head = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            sent = head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        assert problem(await rig.ask(sent)) == (413, "body-too-large")
        await rig.until_alone()


async def test_answer_before_the_end_of_the_body_announces_the_close() -> None:
    async with running() as rig:
        async with await rig.connect() as stream:
            await stream.send_all(post(b"", declared=3).replace(b"/echo", b"/nowhere"))
            early = await read_all(stream)
        assert problem(early)[0] == 404
        assert b"\r\nconnection: close\r\n" in early.lower()
        async with await rig.connect() as stream:
            await stream.send_all(post(b"", declared=3).replace(b"/echo", b"/nowhere"))
            await trio.sleep(0.01)
            await stream.send_all(b"[1]" + post(b"[2]", "Connection: close"))
            refused, answered = (await read_all(stream)).split(b"HTTP/1.1 200")
        assert b"connection: close" not in refused.lower()
        assert answered.endswith(b"[2]")


async def test_client_that_reads_nothing_is_disconnected() -> None:
    async with running(send_deadline_ms=200) as rig:
        async with await rig.connect() as stream:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await stream.send_all(get("/big"))
            await rig.until_alone()
        assert rig.log.lines == []


async def test_slow_client_gets_the_whole_answer() -> None:
    async with running(send_deadline_ms=1_500) as rig:
        async with await rig.connect() as stream:
            await stream.send_all(get("/big", "Connection: close"))
            received, began = 0, trio.current_time()
            while more := await stream.receive_some(max(400_000, len(BIG) // 10)):
                received += len(more)
                await trio.sleep(0.2)
        assert received > len(BIG)
        assert trio.current_time() - began > 1.5, "longer than the deadline, which is one of progress"


async def test_connections_over_the_bounds_are_closed_and_the_others_served() -> None:
    for limit in ("connections_max", "connections_per_ip_max"):
        async with running(**{limit: 3}) as rig:
            streams = [await rig.connect() for _ in range(3)]
            for stream in streams:
                await stream.send_all(post(b"1"))
                assert await said(stream, b"1")
            assert await rig.ask(b"") in {b"", b"(reset)"}
            assert rig.context.shell.counters.bad_requests == {"http-connections": 1}
            assert (await rig.ask(get("/health/live"))).endswith(b'"status":"ok","reasons":[]}\n')
            await streams.pop().aclose()
            with trio.fail_after(5):
                while rig.context.connections > 2:  # noqa: ASYNC110
                    await trio.sleep(0.005)
            assert (await rig.ask(post(b"2", "Connection: close"))).endswith(b"2")
            for stream in streams:
                await stream.aclose()


@pytest.mark.parametrize("path", ["/bug", "/late-bug"])
async def test_a_bug_of_ours_is_said_in_the_log_and_not_to_the_client(
    path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[Any, ...]] = []
    monkeypatch.setattr("yak.server.log.write", lambda *args, **named: written.append(args))
    async with running() as rig:
        answer = await rig.ask(get(path, "Connection: close"))
        assert b"secret" not in answer
        assert b"Traceback" not in answer
        if path == "/bug":
            assert problem(answer) == (500, "internal-error")
        assert rig.context.shell.counters.bugs == 1
        assert (await rig.ask(post(b"1", "Connection: close"))).endswith(b"1")
    assert [(level, event) for level, event, _ in written] == [("error", "http-bug")]


async def test_request_for_an_icon_is_answered_without_a_body_or_a_login() -> None:
    async with serving([], authentication="basic") as rig:
        answer = await rig.ask(get("/favicon.ico", "Connection: close"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 204 ")
    assert body == b""


async def test_an_endless_answer_has_a_head_that_ends() -> None:
    async with running() as rig:
        answer = await rig.ask(b"HEAD /endless HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"text/event-stream" in answer


async def test_an_endless_answer_ends_with_its_client() -> None:
    async with running() as rig:
        async with await rig.connect() as stream:
            await stream.send_all(get("/endless"))
            assert await stream.receive_some(65536)
        with trio.fail_after(5):
            await PIECES["ended"].wait()
        await rig.until_alone()
        assert rig.log.lines == []


# --------------------------------------------------------------------------------------------------------------- the end


async def test_an_answer_under_way_at_the_stop_is_given() -> None:
    async with running(graceful_stop_ms=5_000) as rig:
        async with await rig.connect() as stream:
            await stream.send_all(get("/slow"))
            await PIECES["began"].wait()
            rig.stopping.set()
            await trio.sleep(0.05)
            assert refused(rig.port)
            assert not rig.ended.is_set()
            PIECES["go on"].set()
            assert (await read_all(stream)).endswith(b"done")
        with trio.fail_after(1):
            await rig.ended.wait()


def test_two_brokers_that_start_at_once_get_two_ports() -> None:
    taken = ports.find_free("127.0.0.1")
    first = bind("127.0.0.1", taken, may_move=True)
    second = bind("127.0.0.1", taken, may_move=True)
    try:
        assert first[0].getsockname()[1] == taken
        assert second[0].getsockname()[1] != taken
        with pytest.raises(UsageError):
            bind("127.0.0.1", taken, may_move=False)
    finally:
        for sock in (*first, *second):
            sock.close()


async def test_unfinished_responses_are_ended_when_the_http_server_stops() -> None:
    async with running(graceful_stop_ms=200) as rig:
        streams = []
        for path in ("/endless", "/slow", "/big"):
            stream = await rig.connect()
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await stream.send_all(get(path))
            streams.append(stream)
        await PIECES["began"].wait()
        await streams[0].receive_some(1)
        rig.stopping.set()
        with trio.fail_after(2):
            await rig.ended.wait()
        assert rig.context.connections == 0
        with trio.fail_after(1):  # Trio closes a generator that was ended while its piece was sent a moment later
            await PIECES["ended"].wait()
        for stream in streams:
            await stream.aclose()
        assert rig.log.lines == []


@pytest.mark.parametrize(("seconds", "has_left"), [(0.3, True), (5.0, False)])
async def test_stop_waits_longer_for_what_clients_hold_in_the_cluster_than_for_answers(
    seconds: float, has_left: bool
) -> None:
    async with running(graceful_stop_ms=50, release_ms=1_000) as rig:
        left = []

        async def leave() -> None:
            await trio.sleep(seconds)
            left.append(seconds)

        rig.context.at_stop.append(leave)
        stream = await rig.connect()
        await stream.send_all(get("/endless"))
        await stream.receive_some(1)
        rig.stopping.set()
        while rig.context.connections:  # noqa: ASYNC110 - what it looks at sets no event
            await trio.sleep(0.005)
        assert not rig.server.released.is_set()
        await rig.server.released.wait()
        assert bool(left) is has_left
        await stream.aclose()


async def test_idle_connections_do_not_hold_up_the_stop() -> None:
    async with running(graceful_stop_ms=30_000) as rig:
        idle = await rig.connect()
        await idle.send_all(post(b"1"))
        assert await said(idle, b"1")
        silent = await rig.connect()
        rig.stopping.set()
        with trio.fail_after(15):
            await rig.ended.wait()
        await idle.aclose()
        await silent.aclose()


@pytest.mark.parametrize(
    ("target", "outcome"),
    [
        ("http://localhost:8080/echo", "{}"),
        ("HTTP://127.0.0.1/echo", "{}"),
        ("http://localhost:8080", "not-found"),
        ("http://localhost?x=1", "not-found"),
        ("http://evil.example/echo", "wrong-host"),
        ("http://localhost@evil.example/echo", "wrong-host"),
    ],
)
async def test_absolute_target_is_taken_and_names_the_host(target: str, outcome: str) -> None:
    """RFC 9112 section 3.2.2: a server accepts it, and ignores the Host header then."""
    async with running() as rig:
        answer = await rig.ask(post(b"{}", "Connection: close").replace(b"/echo", target.encode(), 1))
        assert outcome in answer.partition(b"\r\n\r\n")[2].decode()
