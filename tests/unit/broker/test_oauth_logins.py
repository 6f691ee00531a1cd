"""Logins by OAUTHBEARER on a simulated broker: tokens, errors, the end of a session, and the keys behind them."""

import itertools
import json

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.login_client import Client, make_rig
from tests.unit.noted_calls import note_calls
from tests.unit.plans import Calls
from tests.unit.security.issuer import claims, key_set_of, member, token, unsigned
from yak.broker.token_verifier import KeySetRead, TokenCheck, TokenVerifiers
from yak.config.oauth_configs import UNSECURED_HANDLER
from yak.core.events import DropJob, WallClockMoved
from yak.security import ANONYMOUS
from yak.security.oauth_messages import ERROR_SEEN, TokenMessage
from yak.security.oauth_settings import Expectations
from yak.sim.disk import SimDisk

OAUTH, URL = "OAUTHBEARER", "sasl_oauthbearer_jwks_endpoint_url"
ONE, TWO = member("RS256", "one"), member("RS256", "two", number=1)
INVALID = b'{"status":"invalid_token"}'


def oauth_rig(document=None, **configs):
    rig = make_rig(sasl_enabled_mechanisms=f"{OAUTH},PLAIN", **{URL: "file:///keys/set.json"} | configs)
    if document is not None:
        rig.node.disk.make_directory("/keys")
        rig.node.disk.write_file("/keys/set.json", document)
    return rig


def web_rig(answers, **configs):
    """A rig whose keys come from the web: each fetch takes the next answer, and the last one stays."""
    rig = oauth_rig(**{URL: "https://user:secret@issuer/keys?secret"} | configs)
    fetched = []

    def answer():
        fetched.append(rig.world.now_ms)
        found = answers[min(len(fetched), len(answers)) - 1]
        if isinstance(found, Exception):
            raise found
        return found

    broker = rig.node.broker
    broker.logins._verifiers = TokenVerifiers(broker.context, lambda _url: Calls(answer))
    return rig, fetched


def signed(rig, **more):
    return token(now_ms=rig.world.now_ms, **{"key_id": "one"} | more)


def reasons(rig):
    return [each.fields["reason"] for each in rig.node.notices if each.event == "login-refused"]


@pytest.fixture
def rig():
    return oauth_rig(key_set_of(ONE))


@pytest.fixture
def client(rig):
    return Client(rig)


def test_valid_token_logs_in_until_its_end(rig, client):
    answer = client.log_in(OAUTH, "", signed(rig, exp=rig.world.now_ms // 1000 + 60))
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.none, b"")
    assert 50 < answer.session_lifetime.total_seconds() <= 60
    assert client.connection.principal == "User:ann"
    rig.run_for(50_000)
    assert client.metadata() is not None
    rig.run_for(20_000)
    assert client.metadata() is None
    assert not client.is_open


def test_session_lifetime_is_the_smaller_of_the_config_and_of_the_token():
    rig = oauth_rig(key_set_of(ONE), connections_max_reauth_ms="60000")
    assert Client(rig).log_in(OAUTH, "", signed(rig)).session_lifetime.total_seconds() == 60
    soon = signed(rig, exp=rig.world.now_ms // 1000 + 10)
    assert Client(rig).log_in(OAUTH, "", soon).session_lifetime.total_seconds() <= 10


def test_session_lifetime_is_counted_by_the_wall_clock(rig, client):
    rig.node.broker.step(WallClockMoved(1_800_000), rig.world.now_ms)
    lifetime = client.log_in(OAUTH, "", signed(rig)).session_lifetime
    assert 1_790 < lifetime.total_seconds() <= 1_800


def test_client_logs_in_again_with_the_next_token(rig, client):
    client.log_in(OAUTH, "", signed(rig, exp=rig.world.now_ms // 1000 + 10))
    rig.run_for(5_000)
    assert client.log_in(OAUTH, "", signed(rig)).session_lifetime.total_seconds() > 3_590
    rig.run_for(20_000)
    assert client.metadata() is not None
    refused = client.log_in(OAUTH, "", signed(rig, sub="bob"))
    assert refused.error_code == ErrorCode.sasl_authentication_failed
    assert refused.error_message == "Cannot change principals during re-authentication from User.ann: User.bob"


def test_refused_token_is_answered_with_json_and_the_acknowledged_error_ends_the_login(rig, client):
    answer = client.log_in(OAUTH, "", signed(rig, number=1))
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.none, INVALID)
    assert client.connection.principal == ANONYMOUS
    begun_ms = rig.world.now_ms
    answer = client.token(ERROR_SEEN)
    assert answer.error_code == ErrorCode.sasl_authentication_failed
    assert json.loads(answer.error_message) == {"status": "invalid_token"}
    assert rig.world.now_ms - begun_ms >= 100
    rig.run_for(10)
    assert not client.is_open
    assert reasons(rig) == ["no key of the set verifies the token's signature"]


def test_token_after_a_refused_one_is_not_tried(rig, client):
    client.log_in(OAUTH, "", signed(rig, number=1))
    answer = client.token(TokenMessage(signed(rig)).encode())
    assert answer.error_code == ErrorCode.sasl_authentication_failed
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
    )
    assert client.connection.principal == ANONYMOUS


def test_request_after_a_refused_token_closes_the_connection(rig, client):
    client.log_in(OAUTH, "", signed(rig, number=1))
    assert client.metadata() is None
    assert not client.is_open


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"exp": 1, "iat": 0}, "the token expired"),
        ({"aud": "other"}, "audience is other"),
        ({"iss": "other"}, "issuer is 'other'"),
        ({"sub": None}, "claim sub"),
    ],
)
def test_token_with_wrong_claims_is_refused(more, reason):
    rig = oauth_rig(
        key_set_of(ONE), sasl_oauthbearer_expected_audience="kafka", sasl_oauthbearer_expected_issuer="https://i"
    )
    good = {"aud": "kafka", "iss": "https://i"}
    assert Client(rig).log_in(OAUTH, "", signed(rig, **good)).auth_bytes == b""
    assert Client(rig).log_in(OAUTH, "", signed(rig, **good | more)).auth_bytes == INVALID
    assert reason in reasons(rig)[-1]


@pytest.mark.parametrize("header", [{"alg": "none"}, {"alg": "HS256", "kid": "one"}, {}, {"alg": "RS256", "kid": "?"}])
def test_unsigned_token_is_refused(rig, client, header):
    assert client.log_in(OAUTH, "", unsigned(header, claims(rig.world.now_ms), b"x")).auth_bytes == INVALID
    assert client.connection.principal == ANONYMOUS


@pytest.mark.parametrize("raw", [b"", b"\x01", b"n,,", b"\0ann\0x", b"n,,\x01auth=Bearer \x01\x01", b"\xff"])
def test_malformed_message_fails_the_login(client, raw):
    client.handshake(OAUTH)
    answer = client.token(raw)
    assert answer.error_code == ErrorCode.sasl_authentication_failed
    assert "invalid credentials with SASL mechanism OAUTHBEARER" in answer.error_message


def test_authorization_id_must_be_the_tokens_user(rig):
    assert Client(rig).log_in(OAUTH, "ann", signed(rig)).error_code == ErrorCode.none
    answer = Client(rig).log_in(OAUTH, "bob", signed(rig))
    assert answer.error_message == (
        "Authentication failed: Client requested an authorization id (bob) "
        "that is different from the token's principal name (ann)"
    )


def test_token_as_large_as_the_limit_allows_is_refused(client):
    client.handshake(OAUTH)
    assert client.token(TokenMessage("a." * 200_000 + "a").encode()).auth_bytes == INVALID


def test_no_log_line_and_no_repr_has_a_token(rig, client):
    secret = signed(rig, number=1)
    client.log_in(OAUTH, "", secret)
    shown = repr([(each.event, each.fields) for each in rig.node.notices]) + repr(
        TokenCheck(secret, b"", Expectations(frozenset(), None, "scope", "sub", 0), 0)
    )
    assert "login-refused" in shown
    assert not [part for part in secret.split(".") if part in shown]


def test_plain_is_served_beside(rig, client):
    assert client.log_in("PLAIN").error_code == ErrorCode.none


# --------------------------------------------------------------------------------------------------------------- keys


def test_keys_that_cannot_be_read_refuse_logins_and_are_read_again():
    rig = oauth_rig()
    assert Client(rig).log_in(OAUTH, "", signed(rig)).auth_bytes == INVALID
    assert "the keys of file:///keys/set.json could not be read" in reasons(rig)[-1]
    rig.node.disk.make_directory("/keys")
    rig.node.disk.write_file("/keys/set.json", key_set_of(ONE))
    rig.run_for(11_000)
    assert Client(rig).log_in(OAUTH, "", signed(rig)).auth_bytes == b""


def test_retries_back_off_to_the_longest_pause():
    rig, fetched = web_rig(
        [OSError("down")],
        sasl_oauthbearer_jwks_endpoint_retry_backoff_ms="100",
        sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms="1000",
    )
    assert Client(rig).log_in(OAUTH, "", signed(rig)).auth_bytes == INVALID
    rig.run_for(10_000)
    pauses_ms = [after - before for before, after in itertools.pairwise(fetched)]
    assert [round(pause_ms, -2) for pause_ms in pauses_ms[:4]] == [100, 200, 400, 800]
    assert all(1_000 <= pause_ms < 1_100 for pause_ms in pauses_ms[4:])
    assert {each.fields["url"] for each in rig.node.notices if each.event == "key-set-unreadable"} == {
        "https://issuer/keys"
    }


def test_unknown_key_makes_the_broker_read_the_keys_and_the_login_waits_for_them():
    rig, fetched = web_rig([key_set_of(ONE), key_set_of(ONE, TWO)])
    assert Client(rig).log_in(OAUTH, "", signed(rig)).auth_bytes == b""
    rig.run_for(6_000)
    assert Client(rig).log_in(OAUTH, "", signed(rig, key_id="two", number=1)).auth_bytes == b""
    assert len(fetched) == 2


def test_many_unknown_keys_make_the_broker_read_the_keys_every_few_seconds_only():
    rig, fetched = web_rig([key_set_of(ONE)])
    for number in range(40):
        assert Client(rig).log_in(OAUTH, "", signed(rig, key_id=f"k{number}")).auth_bytes == INVALID
        rig.run_for(500)
    assert 3 <= len(fetched) <= 5


def test_token_of_a_closed_connection_is_dropped_and_so_is_its_check(rig, monkeypatch):
    Client(rig).log_in(OAUTH, "", signed(rig))
    verifier = rig.node.broker.logins._verifiers.of_listener("PLAINTEXT")
    effects = note_calls(monkeypatch, rig.node, "_carry_out")
    monkeypatch.setattr(rig.node.jobs, "delays_us", {"login": 50_000})
    for document in (None, key_set_of(ONE)):
        verifier._document = document
        client = Client(rig)
        client.handshake(OAUTH)
        rig.begin(36, 2, client=client.channel, auth_bytes=TokenMessage(signed(rig)).encode())
        rig.run_for(10)
        assert bool(verifier._waiting) is (document is None)
        client.channel.close()
        rig.run_for(10)
        assert not verifier._waiting
    assert [each.kind for (each,) in effects if isinstance(each, DropJob)] == ["login"]


def test_keys_are_read_again_in_time_and_a_removed_key_is_not_trusted():
    rig, fetched = web_rig([key_set_of(ONE), key_set_of(TWO)], sasl_oauthbearer_jwks_endpoint_refresh_ms="60000")
    assert Client(rig).log_in(OAUTH, "", signed(rig)).auth_bytes == b""
    rig.run_for(61_000)
    assert len(fetched) == 2
    assert Client(rig).log_in(OAUTH, "", signed(rig)).auth_bytes == INVALID
    assert Client(rig).log_in(OAUTH, "", signed(rig, key_id="two", number=1)).auth_bytes == b""


@pytest.mark.parametrize("broken", [OSError("down"), b"<html>", b'{"keys":[]}'])
def test_keys_that_cannot_be_read_again_leave_the_old_ones(broken):
    rig, fetched = web_rig([key_set_of(ONE), broken], sasl_oauthbearer_jwks_endpoint_refresh_ms="1000")
    assert Client(rig).log_in(OAUTH, "", signed(rig)).auth_bytes == b""
    rig.run_for(5_000)
    assert len(fetched) > 2
    assert Client(rig).log_in(OAUTH, "", signed(rig)).auth_bytes == b""


def test_bug_in_a_check_refuses_the_login_and_is_logged(rig, client, monkeypatch):
    monkeypatch.setattr("yak.security.access_tokens.verify", lambda *_: 1 / 0)
    assert client.log_in(OAUTH, "", signed(rig)).auth_bytes == INVALID
    assert [each.fields for each in rig.node.notices if each.event == "token-check-failed"] == [
        {"what": "ZeroDivisionError"}
    ]


def test_key_set_of_a_file_counts_its_keys():
    disk = SimDisk()
    disk.make_directory("/")
    disk.write_file("/set.json", key_set_of(ONE, TWO))
    assert KeySetRead("/set.json", None).run(disk) == (key_set_of(ONE, TWO), 2)


# ---------------------------------------------------------------------------------------------- unsecured validator


def test_unsecured_validator_takes_unsigned_tokens_and_no_others():
    rig = oauth_rig(sasl_server_callback_handler_class=UNSECURED_HANDLER)
    answer = Client(rig).log_in(OAUTH, "", unsigned({"alg": "none"}, claims(rig.world.now_ms)))
    assert answer.auth_bytes == b""
    assert Client(rig).log_in(OAUTH, "", signed(rig)).auth_bytes == INVALID
    assert not [each for each in rig.node.notices if each.event.startswith("key-set")]


def test_many_logins_without_keys_keep_to_the_pauses_between_reads():
    rig, fetched = web_rig([OSError("down")], sasl_oauthbearer_jwks_endpoint_retry_backoff_ms="1000")
    clients = [Client(rig) for _ in range(10)]
    for client in clients:
        client.handshake(OAUTH)
    waiting = [
        rig.begin(36, 2, client=client.channel, auth_bytes=TokenMessage(signed(rig)).encode()) for client in clients
    ]
    rig.run_for(1_500)
    assert [each.answer.auth_bytes for each in waiting] == [INVALID] * 10
    assert len(fetched) == 2
