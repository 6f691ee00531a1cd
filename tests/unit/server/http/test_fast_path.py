"""Which requests are answered without Hypercorn: only the plainest."""

from types import SimpleNamespace

import pytest

from tests.rig import Rig
from yak.server.http.fast_path import OPEN_PATHS, PATHS, path_of
from yak.views import health
from yak.views.health import HealthView

HOST = b"host: 127.0.0.1:8080\r\n"


def context(token: str | None = None, *, has_acls: bool = False) -> SimpleNamespace:
    broker = SimpleNamespace(authorization=SimpleNamespace(is_active=has_acls))
    named = {"host": "127.0.0.1", "advertised_host": "broker-1.example"}
    return SimpleNamespace(token=token, authentication="none", broker=broker, **named)


@pytest.mark.parametrize(
    ("request_bytes", "path"),
    [
        (b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n", "/health"),
        (b"GET /health/live HTTP/1.1\r\nHost:broker-1.example\r\nUser-Agent: kube-probe/1.30\r\n\r\n", "/health/live"),
        (b"GET /health/ready HTTP/1.1\r\nconnection: Keep-Alive\r\n" + HOST + b"\r\n", "/health/ready"),
    ],
)
def test_a_plain_question_is_taken(request_bytes, path):
    assert path_of(context(), request_bytes) == path


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /health HTTP/1.1\r\n\r\n",  # no Host
        b"GET /health HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
        b"GET /health HTTP/1.1\r\nhost: evil.example\r\n\r\n",
        b"GET /health HTTP/1.0\r\n" + HOST + b"\r\n",
        b"HEAD /health HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /health?a=b HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /healthy HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /health HTTP/1.1\r\n" + HOST + b"content-length: 1\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + HOST + b"upgrade: h2c\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + HOST + b"accept: a\r\n b\r\n\r\n",  # a folded line
        b"GET /health HTTP/1.1\r\n" + HOST + b"accept : a\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + HOST + b"accept: \x00\r\n\r\n",
        b"GET /health HTTP/1.1\n" + HOST + b"\r\n",
        b"GET /health HTTP/1.1\r\n" + HOST + b"\r\nGET /health HTTP/1.1\r\n" + HOST + b"\r\n",  # a second one behind it
        b"GET /health HTTP/1.1\r\nhost: 127",
    ],
)
def test_anything_else_is_left_to_hypercorn(request_bytes):
    assert path_of(context(), request_bytes) is None


def test_a_token_of_the_broker_makes_no_other_name_its_own():
    assert path_of(context("secret"), b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n") == "/health"
    assert path_of(context("secret"), b"GET /health HTTP/1.1\r\nhost: any.example\r\n\r\n") is None


def test_with_acls_only_the_checks_of_load_balancers_are_taken():
    assert path_of(context(has_acls=True), b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n") is None
    live = b"GET /health/live HTTP/1.1\r\n" + HOST + b"\r\n"
    assert path_of(context(has_acls=True), live) == "/health/live"


@pytest.mark.timeout(10)
@pytest.mark.parametrize("blanks", [b" " * 16_000, b"\t " * 8_000])
def test_a_header_of_blanks_does_not_stop_the_loop(blanks):
    hostile = b"GET /health HTTP/1.1\r\n" + HOST + b"accept:" + blanks + b"\x80\r\n\r\n"
    assert path_of(context(), hostile) is None
    assert path_of(context(), b"GET /health HTTP/1.1\r\n" + HOST + b"accept:" + blanks + b"\r\n\r\n") == "/health"


def test_check_of_a_load_balancer_counts_no_partitions(monkeypatch):
    """It comes every second, and with thousands of partitions the counts of each image take milliseconds."""
    counted = []
    monkeypatch.setattr(health, "_count", lambda *_given: counted.append(1) or health.PartitionCounts())
    view = HealthView(Rig().node.broker)
    for path in OPEN_PATHS:
        assert PATHS[path](view)[0] == 200
    assert counted == []
    assert PATHS["/health"](view)[0] == 200
    assert counted == [1]
