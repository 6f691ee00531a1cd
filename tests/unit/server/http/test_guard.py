"""Who may ask, as a table."""

import socket
from typing import Any

import pytest
import trio
from starlette.requests import Request

from tests.unit.server.http.rig import make_context, make_request
from yak.server.http import guard
from yak.server.http.problems import Problem
from yak.server.http.route import Guard, Route

TOKEN = "a secret"


async def nothing(_context: Any, _request: Request) -> Any:
    raise AssertionError("the guard alone is tested")


def refusal(
    level: Guard = "read",
    *,
    token: str | None = None,
    client: str | None = "127.0.0.1",
    server: str = "127.0.0.1",
    advertised_host: str = "broker-1.example",
    **headers: str,
) -> str:
    """The name of the error, or an empty text when it may."""
    sent = {"host": "localhost:8080", **{name.replace("_", "-"): value for name, value in headers.items()}}
    request = make_request(
        headers={name: value for name, value in sent.items() if value != "none"},
        client=None if client is None else (client, 50000),
        server=(server, 8080),
    )
    route = Route("POST", "/", nothing, "x", "T", guard=level)
    try:
        trio.run(guard.check, make_context(token=token, advertised_host=advertised_host), request, route)
    except Problem as problem:
        return problem.error
    return ""


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8080",
        "127.0.0.1",
        "127.0.0.1:8080",
        "10.1.2.3:1",
        "[::1]",
        "[::1]:8080",
        "[fe80::1%eth0]:80",
        "broker-1.example",
        "Broker-1.Example:8080",
        "none",
        socket.gethostname(),
    ],
)
def test_addresses_and_our_own_names_are_taken(host: str) -> None:
    assert refusal(host=host) == ""


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[::1",
        "[evil]:80",
        ":80",
    ]
    + ["127.1", "0x7f000001", "user@localhost", "localhost@evil.example", "broker-1.example.evil"],
)
def test_other_names_are_refused_even_for_reading(host: str) -> None:
    for level in ("read", "change", "admin"):
        assert refusal(level, host=host) == "wrong-host"


def test_only_requests_with_the_token_may_use_any_host_name() -> None:
    named = {"host": "behind.a.proxy.example", "token": TOKEN}
    assert refusal(**named) == "wrong-host"
    assert refusal(**named, authorization="Bearer wrong") == "wrong-host"
    assert refusal(**named, authorization=f"Bearer {TOKEN}") == ""


@pytest.mark.parametrize(
    ("origin", "host", "error"),
    [
        ("none", "localhost:8080", ""),
        ("http://localhost:8080", "localhost:8080", ""),
        ("HTTP://LOCALHOST:8080", "localhost:8080", ""),
        ("https://evil.example", "localhost:8080", "foreign-origin"),
        ("http://localhost:9090", "localhost:8080", "foreign-origin"),
        ("http://127.0.0.1:8080", "localhost:8080", "foreign-origin"),
        ("null", "localhost:8080", "foreign-origin"),
        ("", "localhost:8080", "foreign-origin"),
        ("localhost:8080", "localhost:8080", "foreign-origin"),
    ],
)
def test_a_page_of_another_site_may_read_and_not_change(origin: str, host: str, error: str) -> None:
    assert refusal("read", origin=origin, host=host) == ""
    assert refusal("change", origin=origin, host=host) == refusal("admin", origin=origin, host=host) == error
    assert refusal("change", origin=origin, host=host, token=TOKEN, authorization=f"Bearer {TOKEN}") == error


@pytest.mark.parametrize(
    ("site", "error"),
    [("none", ""), ("same-origin", ""), ("same-site", "foreign-origin"), ("cross-site", "foreign-origin")],
)
def test_a_picture_of_another_site_changes_nothing(site: str, error: str) -> None:
    assert refusal("read", sec_fetch_site=site) == ""
    assert refusal("change", sec_fetch_site=site) == error
    assert refusal("change", sec_fetch_site=site, origin="http://localhost:8080") == ""


@pytest.mark.parametrize(
    ("authorization", "may"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer {TOKEN}", True),
        (f"Bearer   {TOKEN}  ", True),
        ("none", False),
        ("", False),
        ("Bearer", False),
        ("Bearer ", False),
        (TOKEN, False),
        (f"Basic {TOKEN}", False),
        (f"Bearer {TOKEN}x", False),
        (f"Bearer {TOKEN[:-1]}", False),
        (f"Bearer {TOKEN.upper()}", False),
        ("Bearer \xff\xfe", False),
    ],
)
def test_requests_that_change_something_need_the_token(authorization: str, may: bool) -> None:
    for level in ("change", "admin"):
        for client in ("127.0.0.1", "10.0.0.9"):
            expected = "" if may else "token-needed"
            assert refusal(level, token=TOKEN, authorization=authorization, client=client) == expected
    assert refusal("read", token=TOKEN, authorization=authorization) == ""


def test_a_token_that_is_no_ascii_is_compared_as_it_is_sent() -> None:
    sent = "Bearer pässwörd".encode().decode("latin-1")
    assert refusal("change", token="pässwörd", authorization=sent) == ""


@pytest.mark.parametrize(
    ("client", "server", "local"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.9", "127.0.0.1", True),
        ("::1", "::1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.2", "10.0.0.1", False),
        ("fe80::1%eth0", "fe80::2", False),
        ("not an address", "127.0.0.1", False),
        (None, "127.0.0.1", False),
    ],
)
def test_the_administration_without_a_token_is_for_this_machine(client: str | None, server: str, local: bool) -> None:
    assert refusal("admin", client=client, server=server) == ("" if local else "local-only")
    assert refusal("change", client=client, server=server) == ""
    assert refusal("read", client=client, server=server) == ""
