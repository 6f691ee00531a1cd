"""The Authorization header of `yak ui`."""

import base64

import httpx
import pytest

from yak.client.login import ClientLogin, use_login
from yak.tui.source.http_login import HttpLogin


@pytest.fixture
def login():
    use_login(ClientLogin("PLAIN", "ann", "p:w"))
    yield "Basic " + base64.b64encode(b"ann:p:w").decode()
    use_login(None)


def sent(url: str, token: str = "") -> str | None:
    (request,) = HttpLogin(token).auth_flow(httpx.Request("GET", url))
    return request.headers.get("authorization")


@pytest.mark.parametrize(
    "url", ["https://broker.example/x", "http://127.0.0.1:1/x", "http://[::1]:1/", "http://localhost"]
)
def test_password_goes_to_https_and_to_this_machine(login: str, url: str) -> None:
    assert sent(url) == login


@pytest.mark.parametrize("url", ["http://broker.example/x", "http://10.0.0.1:1/x"])
def test_password_does_not_cross_a_network_in_clear(login: str, url: str) -> None:
    assert sent(url) is None


def test_token_goes_before_the_login(login: str) -> None:
    assert sent("http://broker.example/x", "T") == "Bearer T"


def test_without_a_login_nothing_is_sent() -> None:
    assert sent("https://broker.example/x") is None
