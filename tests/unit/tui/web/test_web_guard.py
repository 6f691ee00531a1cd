import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from yak.tui.web.options import WebOptions
from yak.tui.web.server import Guard, RefusedRequest

HOST = "127.0.0.1:8090"


def ask(guard: Guard, method: str = "GET", path: str = "/", **headers: str) -> str:
    """The slug of the refusal, or "" for a request that may pass."""
    named = {name.replace("_", "-"): value for name, value in {"Host": HOST, **headers}.items()}
    try:
        guard.check(make_mocked_request(method, path, headers=named))
    except RefusedRequest as refused:
        return refused.code
    return ""


def cookie_of(guard: Guard, path: str, host: str = HOST) -> str:
    """The Cookie header that a browser sends after an answer to this address."""
    response = web.Response()
    guard.remember(make_mocked_request("GET", path, headers={"Host": host}), response)
    return "; ".join(f"{name}={morsel.value}" for name, morsel in response.cookies.items())


def test_without_a_token_our_own_address_is_open():
    assert ask(Guard(WebOptions())) == ""


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8090", "[evil", "127.0.0.1.evil.example", "a@127.0.0.1"]
)
def test_a_name_that_is_not_ours_is_refused(host):
    assert ask(Guard(WebOptions()), Host=host) == "wrong-host"


def test_the_name_that_was_bound_is_ours():
    assert ask(Guard(WebOptions(host="yak.example")), Host="YAK.example:1") == ""


@pytest.mark.parametrize(
    "path", ["/", "/?token=", "/?token=wrong", "/?token=s3cre", "/?token=s3cretx", "/?token=%C3%A4"]
)
def test_the_token_must_be_right(path):
    assert ask(Guard(WebOptions(token="s3cret")), path=path) == "token-needed"


def test_wrong_token_is_refused_despite_a_valid_cookie():
    guard = Guard(WebOptions(token="s3cret"))
    cookie = cookie_of(guard, "/?token=s3cret")
    assert ask(guard, Cookie=cookie) == ""
    assert ask(guard, path="/?token=wrong", Cookie=cookie) == "token-needed"


def test_client_with_the_token_may_use_any_host_name_as_a_rebound_page_has_no_token():
    guard = Guard(WebOptions(token="s3cret"))
    assert ask(guard, path="/?token=s3cret", Host="proxy.example") == ""
    assert ask(guard, Host="proxy.example", Cookie=cookie_of(guard, "/?token=s3cret", "proxy.example")) == ""
    assert ask(guard, path="/?token=wrong", Host="proxy.example") == "wrong-host"


def test_the_cookie_holds_no_token_and_serves_one_run_and_one_port():
    options = WebOptions(token="s3cret")
    first, second = Guard(options), Guard(options)
    cookie = cookie_of(first, "/?token=s3cret")
    assert "s3cret" not in cookie
    assert ask(second, Cookie=cookie) == "token-needed"
    assert ask(first, Cookie=cookie, Host="127.0.0.1:8091") == "token-needed"


def test_no_cookie_is_given_where_no_token_came():
    assert cookie_of(Guard(WebOptions(token="s3cret")), "/") == ""
    assert cookie_of(Guard(WebOptions()), "/?token=any") == ""


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9", "http://127.0.0.1:8090.evil.example"]
)
def test_another_sites_page_may_neither_post_nor_open_a_socket(origin):
    guard = Guard(WebOptions())
    assert ask(guard, "POST", Origin=origin) == "foreign-origin"
    assert ask(guard, Upgrade="WebSocket", Origin=origin) == "foreign-origin"
    assert ask(guard, Origin=origin) == ""  # a page that is read: the browser keeps it from whose origin this is


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_our_own_page_may_also_through_a_proxy_that_speaks_tls(scheme):
    assert ask(Guard(WebOptions()), "POST", Origin=f"{scheme}://{HOST}") == ""
    assert ask(Guard(WebOptions()), Upgrade="websocket", Origin=f"{scheme}://{HOST}") == ""


def test_sec_fetch_site_without_an_origin_is_checked_and_curl_may_pass():
    guard = Guard(WebOptions())
    assert ask(guard, "POST", Sec_Fetch_Site="cross-site") == "foreign-origin"
    assert ask(guard, "POST", Sec_Fetch_Site="same-origin") == ""
    assert ask(guard, "POST") == ""
