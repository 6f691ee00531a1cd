"""What an attacker sends before a login: every API key, recorded messages of SCRAM, and messages that were changed."""

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.login_client import API_VERSIONS, AUTHENTICATE, HANDSHAKE, PASSWORD, Client, make_rig
from tests.unit.noted_calls import note_calls
from yak.broker.apis import TABLE
from yak.broker.connections import LoginState
from yak.core.events import DropJob
from yak.limits import LOGIN_MS_MAX
from yak.security import ANONYMOUS
from yak.security.plain import PlainToken
from yak.security.scram import MECHANISMS, ScramClient

SHA_256 = MECHANISMS["SCRAM-SHA-256"]
OTHER_KEYS = sorted(set(TABLE) - {API_VERSIONS, HANDSHAKE, AUTHENTICATE})
ANSWERED = {"handshake": lambda _client: None, "authenticate": lambda client: client.handshake("SCRAM-SHA-256")}
"""What makes a login wait for its next request."""


@pytest.fixture(scope="module")
def rig():
    return make_rig(connections_max_reauth_ms="3600000")


@pytest.fixture
def client(rig):
    return Client(rig)


def assert_refused(client, answer):
    """The login failed, and the connection is closed."""
    assert answer.error_code == ErrorCode.sasl_authentication_failed
    client.rig.run_for(200)
    assert not client.is_open


def recorded(client):
    """The messages of a client that logs in: the first and the last one."""
    scram = ScramClient(SHA_256, "ann", PASSWORD, b"nonce of the client")
    client.handshake(SHA_256.name)
    final = scram.final(client.token(scram.first()).auth_bytes)
    assert client.token(final).error_code == ErrorCode.none
    return scram.first(), final


# ------------------------------------------------------------------------------------------------------- every API


@pytest.mark.parametrize("state", ANSWERED)
@pytest.mark.parametrize("api_key", [*OTHER_KEYS, -1, 200, 32_767])
def test_any_other_api_before_the_login_closes_the_connection_unread(rig, client, monkeypatch, api_key, state):
    ANSWERED[state](client)
    closes = note_calls(monkeypatch, rig.node.broker.logins, "_close")
    frames = []
    client.channel._connection.answered = frames.extend
    version = TABLE[api_key].VERSIONS[-1] if api_key in TABLE else 0
    header = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + b"\0\0\0\1\xff\xff\0"
    rig.node.receive(client.connection_id, [header + b"\x7f" * 40])
    rig.run_for(10)
    assert not client.is_open
    assert frames == []
    assert [reason for _, reason in closes] == [f"a request with API key {api_key} before the login"]


def test_connection_that_stops_in_the_middle_of_an_exchange_is_closed_in_time(rig, client):
    client.handshake(SHA_256.name)
    client.token(ScramClient(SHA_256, "ann", PASSWORD, b"nonce").first())
    rig.run_for(LOGIN_MS_MAX)
    assert not client.is_open


def test_password_check_of_a_connection_that_was_closed_is_dropped(rig, client, monkeypatch):
    effects = note_calls(monkeypatch, rig.node, "_carry_out")
    monkeypatch.setattr(rig.node.jobs, "delays_us", {"login": 50_000})
    client.handshake("PLAIN")
    rig.begin(AUTHENTICATE, 2, client=client.channel, auth_bytes=PlainToken("ann", "guess").encode())
    rig.run_for(10)
    client.channel.close()
    rig.run_for(10)
    assert [each.kind for (each,) in effects if isinstance(each, DropJob)] == ["login"]


# --------------------------------------------------------------------------------------------------------- replays


def test_recorded_messages_do_not_log_in_on_another_connection(rig, client):
    first, final = recorded(Client(rig))
    client.handshake(SHA_256.name)
    client.token(first)
    assert_refused(client, client.token(final))
    assert client.connection.principal == ANONYMOUS


def test_recorded_last_message_is_no_first_message(rig, client):
    _, final = recorded(Client(rig))
    client.handshake(SHA_256.name)
    assert_refused(client, client.token(final))


def test_last_message_sent_again_behind_the_login_is_refused(client):
    _, final = recorded(client)
    assert client.token(final).error_code == ErrorCode.illegal_sasl_state
    assert client.metadata() is not None


def test_recorded_messages_do_not_log_in_again_on_their_own_connection(rig, client):
    first, final = recorded(client)
    rig.run_for(2_000)
    client.handshake(SHA_256.name)
    client.token(first)
    assert_refused(client, client.token(final))


def test_messages_of_two_exchanges_at_a_time_do_not_fit_each_other(rig, client):
    other, scram = Client(rig), ScramClient(SHA_256, "ann", PASSWORD, b"nonce of the client")
    for each in (client, other):
        each.handshake(SHA_256.name)
    client.token(scram.first())
    final = scram.final(other.token(scram.first()).auth_bytes)
    assert_refused(client, client.token(final))
    assert other.token(final).error_code == ErrorCode.none


# -------------------------------------------------------------------------------------------------- changed messages

CHANGED = {
    "another nonce": lambda final: final.replace(b",r=", b",r=x"),
    "nonce without the broker's part": lambda final: final[: final.index(b",r=")] + b",r=nonce of the client" + _proof(final),
    "channel binding of a client that saw none": lambda final: final.replace(b"c=biws", b"c=eSws"),
    "channel binding to TLS": lambda final: final.replace(b"c=biws", b"c=cD10bHMtdW5pcXVlLCxhYmM="),
    "no channel binding": lambda final: final.partition(b",")[2],
    "proof with another bit": lambda final: final[:-2] + (b"A=" if final[-2:] != b"A=" else b"Q="),
    "no proof": lambda final: final[: final.index(b",p=")],
    "an extension behind the proof": lambda final: final + b",x=1",
    "another user": lambda final: b"n=bob," + final,
}  # fmt: skip


def _proof(final):
    return final[final.index(b",p=") :]


@pytest.mark.parametrize("how", CHANGED)
def test_changed_last_message_is_refused(client, how):
    scram = ScramClient(SHA_256, "ann", PASSWORD, b"nonce of the client")
    client.handshake(SHA_256.name)
    final = scram.final(client.token(scram.first()).auth_bytes)
    changed = CHANGED[how](final)
    assert changed != final
    assert_refused(client, client.token(changed))


@pytest.mark.parametrize("header", [b"p=tls-unique,,", b"p=tls-server-end-point,,", b"p=tls-exporter,,"])
def test_channel_binding_which_the_broker_does_not_offer_is_refused(client, header):
    client.handshake(SHA_256.name)
    first = ScramClient(SHA_256, "ann", PASSWORD, b"nonce").first()
    assert_refused(client, client.token(header + first.removeprefix(b"n,,")))


@pytest.mark.parametrize("name", ["x" * 500_000, "ü" * 100_000, "\u202eann", "ann ", "\x01", "User:ann", "*"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_odd_user_names_fail_as_unknown_users(client, mechanism, name):
    assert_refused(client, client.log_in(mechanism, name))
    assert client.connection.login is None or client.connection.login.state is not LoginState.DONE
