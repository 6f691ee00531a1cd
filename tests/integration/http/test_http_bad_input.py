"""Bad input to the HTTP port of a live broker, row by row: 4xx or a closed connection, and clients that are well notice
nothing.

What needs a deadline to pass is in tests/unit/server/http/test_http_server.py, where deadlines are short.
"""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import httpx
import psutil
import pytest
from support.raw import Health
from support.raw_http import CLOSED, RawAnswer, RawHttp, request
from support.waiting import wait_until

from yak.server.http.context import HttpLimits

LIMITS: Final = HttpLimits()
TOKEN: Final = "a token \u00fc"
POSTED: Final = "/produce"


def post(body: bytes, *headers: str, declared: int | None = None) -> bytes:
    length = len(body) if declared is None else declared
    return request("POST", POSTED, "Content-Type: application/json", *headers, f"Content-Length: {length}") + body


HEAD: Final = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
EMPTY_LINE: Final = b"\r\n"
# name -> (bytes, the status of the answer or CLOSED, the error's name)
HEADS: Final[dict[str, tuple[bytes, int | str, str]]] = {
    "a request line of 1 MB": (request("GET", "/" + "a" * 1_000_000), 431, "head-too-large"),
    "one header of 1 MB": (HEAD + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n", 431, "head-too-large"),
    "10,000 headers": (HEAD + b"a: b\r\n" * 10_000 + EMPTY_LINE, 431, "head-too-large"),
    "headers a little too large": (HEAD + b"X: " + b"a" * LIMITS.header_bytes_max + b"\r\n\r\n", 431, "head-too-large"),
    "headers without an end": (HEAD + b"X: y\r\n" * 100_000, 431, "head-too-large"),
    "length and chunks": (
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "bad-request",
    ),
    "two lengths": (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400, "bad-request"),
    "a negative length": (HEAD + b"Content-Length: -1\r\n\r\n", 400, "bad-request"),
    "a length that is no number": (HEAD + b"Content-Length: 1e3\r\n\r\n", 400, "bad-request"),
    "a length of 30 digits": (HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", 400, "bad-request"),
    "another transfer encoding": (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", 501, "bad-request"),
    "one line with LF alone": (b"GET /health HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n", 400, "bad-request"),
    "a NUL within a header": (HEAD + b"X: a\0b\r\n\r\n", 400, "bad-request"),
    "a blank before the colon": (HEAD + b"Content-Length : 5\r\n\r\nhello", 400, "bad-request"),
    "a header without a colon": (HEAD + b"nonsense\r\n\r\n", 400, "bad-request"),
    "a blank in the path": (b"GET /health x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "bad-request"),
    "a path that is no ASCII": ("GET /hälth HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), 400, "bad-request"),
    "no version": (b"GET /health\r\n\r\n", 400, "bad-request"),
    "a version that is not there": (b"GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n", 505, "http-version"),
    "HTTP/2 from the start": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), 505, "http-version"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), 400, "bad-request"),
    "a request to Kafka": (b"\0\0\0\x16\0\x12\0\0\0\0\0\1\0\x0cconsumer-1x", 400, "bad-request"),
    "zeros": (bytes(100_000), 400, "bad-request"),
    "no Host": (request("GET", "/health", host=None), 400, "bad-request"),
    "two Hosts": (HEAD + b"Host: localhost\r\n\r\n", 400, "bad-request"),
    "a page's own Host": (request("GET", "/health", host="evil.example"), 421, "wrong-host"),
    "a WebSocket": (
        request(
            "GET",
            "/health",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ),
        400,
        "no-websockets",
    ),
    "a path upwards": (request("GET", "/../../etc/passwd"), 404, "not-found"),
    "a path upwards in disguise": (request("GET", "/%2e%2e/%2e%2e/etc/passwd"), 404, "not-found"),
    "a NUL in the path": (request("GET", "/health%00"), 404, "not-found"),
    "a path that is no UTF-8": (request("GET", "/%ff%fe"), 404, "not-found"),
    "a slash too many": (request("GET", "/health/", host="localhost"), 404, "not-found"),
    "another server's address": (request("GET", "http://evil.example/health"), 421, "wrong-host"),
    "an unknown path with a page's own Host": (request("GET", "/nothing/", host="evil.example"), 404, "not-found"),
    "OPTIONS": (request("OPTIONS", "/health"), 405, "method-not-allowed"),
    "OPTIONS of everything": (request("OPTIONS", "*"), 404, "not-found"),
    "TRACE": (request("TRACE", "/health", "Cookie: secret"), 405, "method-not-allowed"),
    "CONNECT": (request("CONNECT", "evil.example:443"), 404, "not-found"),
    "a method that is not there": (request("BREW", "/health"), 405, "method-not-allowed"),
    "an end within the head": (b"GET /health HTTP/1.1\r\nHost: loc", CLOSED, ""),
}
KNOWN_FIELDS: Final = b'{"topic": "healthy", "payload": %s}'
BODIES: Final[dict[str, tuple[Callable[[], bytes], tuple[int, ...], str]]] = {
    "no JSON": (lambda: post(b"no JSON"), (400,), "not-json"),
    "no UTF-8": (lambda: post(KNOWN_FIELDS % b'"\xff\xfe"'), (400,), "not-json"),
    "UTF-16": (lambda: post('{"topic": "t"}'.encode("utf-16")), (400,), "not-json"),
    "a depth of 100,000": (lambda: post(KNOWN_FIELDS % (b"[" * 100_000 + b"]" * 100_000)), (400,), "not-json"),
    "objects 100,000 deep": (lambda: post(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), (400,), "not-json"),
    "brackets without an end": (lambda: post(b"[" * 1_000_000), (400,), "not-json"),
    "a number of 100,000 digits": (lambda: post(KNOWN_FIELDS % (b"9" * 100_000)), (400,), "not-json"),
    "a list instead of an object": (lambda: post(b"[1, 2]"), (400,), ""),
    "an unknown field": (lambda: post(b'{"nonsense": 1}'), (400,), "bad-body"),
    "1 GB declared": (lambda: post(b"{", declared=1_000_000_000), (413,), "body-too-large"),
    "17 MB sent": (lambda: post(b"[" + b"1," * (17 << 19) + b"1]"), (413,), "body-too-large"),
    "a chunk that goes on for ever": (
        lambda: request("POST", POSTED, "Transfer-Encoding: chunked") + b"ffffffffffffffff\r\n" + bytes(17 << 20),
        (413,),
        "body-too-large",
    ),
    "a chunk without its size": (lambda: request("POST", POSTED, "Transfer-Encoding: chunked") + b"zz\r\n", (400,), ""),
    "a page of another site": (lambda: post(b"{}", "Origin: https://evil.example"), (403,), "foreign-origin"),
    "a page in a sandbox": (lambda: post(b"{}", "Origin: null"), (403,), "foreign-origin"),
}


class HttpHealth:
    """Clients that were there all the time, of HTTP and of Kafka: both are still served, and nothing is left over."""

    def __init__(self, broker: Any) -> None:
        self.broker = broker
        self._kafka = Health(broker, "healthy")
        self._client = httpx.Client(base_url=broker.http_url, timeout=20.0, trust_env=False)
        assert self._client.get("/health").status_code == 200
        self._process = psutil.Process(broker.pid)
        self._threads = self._process.num_threads()

    def check(self) -> None:
        found = self._client.get("/health")
        assert (found.status_code, found.json()["status"]) == (200, "ok")
        wait_until(lambda: self.connections() <= 1, "the connections of the bad ones are gone", 30)
        self._kafka.check()
        assert " ERROR " not in self.broker.log(), self.broker.log()[-3000:]

    def connections(self) -> int:
        return sum(
            each.status == psutil.CONN_ESTABLISHED and each.laddr.port == self.broker.http_port
            for each in self._process.net_connections("tcp")
        )

    def close(self) -> None:
        self._client.close()
        self._kafka.close()


@pytest.fixture(scope="module")
def http_broker(borrowed_broker: Callable[[], AbstractContextManager[Any]]) -> Iterator[Any]:
    with borrowed_broker() as broker:
        yield broker.start(http_port=0)


@pytest.fixture(scope="module")
def health(http_broker: Any) -> Iterator[HttpHealth]:
    made = HttpHealth(http_broker)
    yield made
    made.close()


def check_problem(found: RawAnswer, statuses: tuple[int, ...], error: str, name: str) -> None:
    assert found.status in statuses, (name, found)
    assert found.headers["content-type"] == "application/json"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert not [name for name in found.headers if name.startswith("access-control")]
    problem = found.json()
    assert set(problem) >= {"error", "message", "hint"}
    if error:
        assert problem["error"] == error, name
    for word in ("Traceback", ".py", "/site-packages", "evil.example/health<"):
        assert word not in found.body.decode()


def test_heads_that_cannot_be_are_refused(http_broker: Any, health: HttpHealth) -> None:
    for name, (sent, status, error) in HEADS.items():
        with RawHttp(http_broker.http_port) as raw:
            raw.send(sent)
            if status == CLOSED:
                raw.sock.shutdown(socket.SHUT_WR)
                assert raw.is_closed(), name
                continue
            assert isinstance(status, int)
            check_problem(raw.answer(), (status,), error, name)
            if error in {"bad-request", "head-too-large", "http-version"}:
                assert raw.is_closed(), name
    health.check()


def test_bodies_that_cannot_be_are_refused(http_broker: Any, health: HttpHealth) -> None:
    for name, (make, statuses, error) in BODIES.items():
        with RawHttp(http_broker.http_port) as raw:
            raw.send(make())
            check_problem(raw.answer(), statuses, error, name)
    health.check()


def test_a_body_that_is_cut_leaves_nothing(http_broker: Any, health: HttpHealth) -> None:
    for reset in (False, True):
        with RawHttp(http_broker.http_port) as raw:
            raw.send(post(b'{"topic": "healthy", ', declared=1000))
            if reset:
                raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    health.check()


def test_a_head_has_no_body_and_what_is_wrong_with_it_has_none_either(http_broker: Any) -> None:
    with RawHttp(http_broker.http_port) as raw:
        raw.send(request("HEAD", "/health"))
        found = raw.answer(to_head=True)
        assert (found.status, int(found.headers["content-length"]) > 0) == (200, True)
        raw.send(request("HEAD", "/health", host="evil.example"))
        assert raw.answer(to_head=True).status == 421
        raw.send(request("HEAD", "/health", "Connection: Upgrade", "Upgrade: websocket"))
        assert raw.answer(to_head=True).status == 400
        assert raw.sock.recv(1) == b""


def test_http_1_0_needs_no_host(http_broker: Any) -> None:
    with RawHttp(http_broker.http_port) as raw:
        raw.send(b"GET /health/ready HTTP/1.0\r\n\r\n")
        assert raw.answer().status == 200
        assert raw.is_closed()


def test_a_client_that_says_no_more_still_gets_its_answer(http_broker: Any) -> None:
    with RawHttp(http_broker.http_port) as raw:
        raw.send(request("GET", "/health"))
        raw.sock.shutdown(socket.SHUT_WR)
        assert raw.answer().status == 200


def test_a_flood_of_nonsense_is_logged_little(http_broker: Any, health: HttpHealth) -> None:
    before = len(http_broker.log().splitlines())
    for _ in range(200):
        with RawHttp(http_broker.http_port) as raw:
            raw.send(b"nonsense\r\n\r\n")
            check_problem(raw.answer(), (400,), "bad-request", "nonsense")
    assert len(http_broker.log().splitlines()) - before < 20
    health.check()


# ------------------------------------------------------------------------------------------------------------- the token


@pytest.fixture(scope="module")
def guarded(borrowed_broker: Callable[[], AbstractContextManager[Any]]) -> Iterator[Any]:
    with borrowed_broker() as broker, pytest.MonkeyPatch.context() as patch:
        patch.setenv("YAK_HTTP_TOKEN", TOKEN)
        yield broker.start(http_port=0)


def test_without_the_token_nothing_is_changed_and_no_output_has_it(guarded: Any) -> None:
    def post_with(authorization: str, content: bytes) -> httpx.Response:
        headers = {"Authorization": authorization.encode()}
        return httpx.post(guarded.http_url + POSTED, content=content, headers=headers, trust_env=False)

    found = post_with("Bearer wrong", b"{}")
    assert (found.status_code, found.json()["error"]) == (401, "token-needed")
    assert found.headers["www-authenticate"] == "Bearer"
    assert post_with(f"bearer {TOKEN}", b"no JSON").json()["error"] == "not-json"
    for path in ("/health", "/docs", "/openapi.json", "/"):
        assert TOKEN not in httpx.get(guarded.http_url + path, trust_env=False).text
    assert TOKEN not in guarded.log()


# --------------------------------------------------------------------------------------------------------------- the end


def test_a_broker_that_stops_ends_its_connections_in_time(borrowed_broker: Any) -> None:
    with borrowed_broker() as broker:
        broker.start(http_port=0)
        with contextlib.ExitStack() as stack:
            idle = stack.enter_context(RawHttp(broker.http_port))
            idle.send(request("GET", "/health"))
            idle.answer()
            within_head = stack.enter_context(RawHttp(broker.http_port))
            within_head.send(b"GET /health HTTP/1.1\r\n")
            deaf = stack.enter_context(RawHttp(broker.http_port))
            deaf.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.send(request("GET", "/docs") * 300)
            time.sleep(0.3)
            started = time.monotonic()
            broker.stop()
            assert time.monotonic() - started < 10
            assert idle.is_closed(1)
            assert within_head.is_closed(1)
        log = broker.log()
        assert " ERROR " not in log
        assert log.rstrip().splitlines()[-1].split()[2] == "stopped", log[-1000:]


def test_bad_json_of_a_log_line_cannot_be_forged(http_broker: Any) -> None:
    """What a peer sends stands in no line of the log as it is."""
    with RawHttp(http_broker.http_port) as raw:
        raw.send(request("GET", "/%0aERROR%20forged", "User-Agent: forged"))
        found = raw.answer()
        assert json.loads(found.body)["error"] == "not-found"
    assert "forged" not in http_broker.log()
