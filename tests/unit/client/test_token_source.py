"""Access tokens for logins of commands: from files and endpoints, used again, renewed, and what is refused."""

import base64
import json
import pickle
from types import SimpleNamespace

import pytest

from tests.errors import raises_error
from tests.unit.security.issuer import claims, unsigned
from yak.client import login
from yak.client.login import ClientLogin, TokenSource, log_in, login_of
from yak.errors import Unreachable, UsageError
from yak.security.oauth_messages import TokenMessage, encode_error

URL, SECRET = "https://issuer/token", "client secret"


@pytest.fixture
def clock(monkeypatch):
    made = SimpleNamespace(now_s=1_000_000.0)
    monkeypatch.setattr(login.time, "time", lambda: made.now_s)
    return made


@pytest.fixture
def endpoint(monkeypatch, clock):
    """The requests to a token endpoint, which answers with `answer`."""
    made = SimpleNamespace(sent=[], answer=None)

    def fetch(url, *, data, headers):
        made.sent.append((url, data, headers))
        if isinstance(made.answer, Exception):
            raise made.answer
        return made.answer if made.answer is not None else json.dumps(
            {"access_token": f"opaque{len(made.sent)}", "expires_in": 100}
        ).encode()  # fmt: skip

    monkeypatch.setattr("yak.http_fetch.fetch", fetch)
    return made


def jwt_until(expires_s):
    return unsigned({"alg": "RS256"}, claims(exp=expires_s), b"x")


def test_endpoint_gets_the_client_id_its_secret_and_the_scope(endpoint):
    source = TokenSource(URL, "me", SECRET, "a b")
    assert source.get() == ("opaque1", 1_000_100.0)
    ((url, data, headers),) = endpoint.sent
    assert (url, data) == (URL, b"grant_type=client_credentials&scope=a+b")
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == f"me:{SECRET}".encode()
    assert SECRET not in repr(source) + repr(ClientLogin("OAUTHBEARER", "me", "", source))


def test_token_is_used_again_until_most_of_its_life_is_over(endpoint, clock):
    source = TokenSource(URL, "me", SECRET)
    assert source.get() == source.get()
    clock.now_s += 79
    assert source.get()[0] == "opaque1"
    clock.now_s += 2
    assert source.get()[0] == "opaque2"


def test_end_of_a_jwt_is_its_own(endpoint):
    endpoint.answer = json.dumps({"access_token": jwt_until(1_000_500), "expires_in": 1}).encode()
    assert TokenSource(URL, "me", SECRET).get()[1] == 1_000_500


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (OSError("HTTP Error 401: Unauthorized"), "401"),
        (b"<html>", "Expecting value"),
        (b"[]", "no access_token"),
        (b'{"access_token": 7}', "no access_token"),
        (b'{"access_token": ""}', "no access_token"),
        (b'{"access_token": "a\\u0001b"}', "no access_token"),
        (b'{"access_token": "opaque"}', "when the token expires"),
        (b'{"access_token": "opaque", "expires_in": NaN}', "when the token expires"),
        (b'{"access_token": "opaque", "expires_in": 1%s}' % (b"0" * 400), "when the token expires"),
        (b'{"access_token": "%s"}' % jwt_until(10**400).encode(), "when the token expires"),
    ],
)
def test_other_answers_are_refused_without_the_secret(endpoint, answer, why):
    endpoint.answer = answer
    with raises_error(Unreachable, "token-unavailable") as caught:
        TokenSource(URL, "me", SECRET).get()
    assert why in caught.value.why
    assert SECRET not in f"{caught.value}{caught.value.why}{caught.value.try_}"


def test_file_is_read_each_time(tmp_path):
    path = tmp_path / "a token"
    source = TokenSource(f"file://{str(path).replace(' ', '%20')}")
    for expires_s in (7, 8):
        path.write_text(jwt_until(expires_s) + "\n")
        assert source.get() == (jwt_until(expires_s), expires_s)
    path.unlink()
    with raises_error(Unreachable, "token-unavailable"):
        source.get()


@pytest.mark.parametrize(
    "text",
    [
        *("", "opaque", "a.b.c", "é.b.c", unsigned({}, []), unsigned({}, {"exp": "x"})),
        *(unsigned({}, {"exp": each}) for each in (10**400, 1e300, float("nan"), -1)),
    ],
)
def test_file_without_a_token_is_refused(tmp_path, text):
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(Unreachable, match="no access token"):
        TokenSource(f"file://{path}").get()


@pytest.mark.parametrize(
    ("url", "client_id", "secret"), [("", "a", "b"), ("token", "a", "b"), (URL, None, "b"), (URL, "a", None)]
)
def test_settings_without_a_token_are_refused(url, client_id, secret):
    with raises_error(UsageError, "login-settings"):
        login_of("SASL_SSL", "OAUTHBEARER", client_id, secret, url or None)


def test_librdkafka_gets_a_callback_and_no_password(endpoint):
    login = login_of("SASL_PLAINTEXT", "OAUTHBEARER", "me", SECRET, URL)
    settings = login.librdkafka()
    assert settings["sasl.mechanism"] == "OAUTHBEARER"
    assert settings["oauth_cb"]("") == ("opaque1", 1_000_100.0)
    assert "sasl.password" not in settings


def handshaken(*answers):
    """A broker that answers SaslHandshake, then tokens with these; and what it got."""
    got, left = [], list(answers)

    def ask(api_key, _version, body):
        if api_key == 17:
            return b"\0\0" + b"\0\0\0\0"
        got.append(body[4:])
        token = left.pop(0)
        return b"\0\0" + b"\xff\xff" + len(token).to_bytes(4, "big") + token

    return ask, got


def test_own_connection_sends_the_token_and_names_a_refusal(endpoint):
    login = login_of("SASL_PLAINTEXT", "OAUTHBEARER", "me", SECRET, URL)
    ask, got = handshaken(b"")
    log_in(login, ask, "host:1")
    assert got == [TokenMessage("opaque1").encode()]
    ask, _got = handshaken(encode_error("invalid_token"))
    with pytest.raises(Unreachable) as caught:
        log_in(login, ask, "host:1")
    assert (caught.value.code, caught.value.why) == ("login-failed", "the broker refuses the token: invalid_token")


def test_login_crosses_to_another_process():
    source = TokenSource("https://issuer/token", "ann", "a secret", "yak")
    copy = pickle.loads(pickle.dumps(ClientLogin("OAUTHBEARER", "ann", "", source))).tokens
    assert (copy.url, copy.name, copy._secret, copy._scope) == ("https://issuer/token", "ann", "a secret", "yak")
