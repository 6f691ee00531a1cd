"""Logins after SaslHandshake v0, whose tokens have no Kafka header: answered as by Kafka's SaslServerAuthenticator."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker.login_client import ALL, PASSWORD, Client, make_rig
from yak.broker.connections import LoginState
from yak.protocol.peer_proof import MECHANISM as PEER_MECHANISM
from yak.security import ANONYMOUS
from yak.security.plain import PlainToken
from yak.security.scram import MECHANISMS, ScramClient


class BareClient(Client):
    """Sends tokens as frames of their own."""

    def __init__(self, rig):
        super().__init__(rig)
        self.answers = []
        connection = self.channel._connection
        take = connection.answered
        connection.answered = lambda frames: self.answers.extend(frames) if self.is_exchanging else take(frames)
        self.is_exchanging = False

    def bare(self, token):
        """The answer to a token; None without one."""
        self.is_exchanging = True
        self.rig.node.receive(self.connection_id, [token])
        self.rig.run_for(200)
        self.is_exchanging = False
        frame = b"".join(self.answers)
        self.answers.clear()
        assert not frame or int.from_bytes(frame[:4], "big") == len(frame) - 4
        return frame[4:] if frame else None

    def log_in_bare(self, mechanism, user="ann", password=PASSWORD):
        """The last answer."""
        assert self.handshake(mechanism, version=0).error_code == ErrorCode.none
        if mechanism == "PLAIN":
            return self.bare(PlainToken(user, password).encode())
        scram = ScramClient(MECHANISMS[mechanism], user, password, b"nonce of the client")
        answer = self.bare(scram.final(self.bare(scram.first())))
        if answer is not None:
            scram.check(answer)
        return answer


@pytest.fixture
def rig():
    return make_rig()


@pytest.fixture
def client(rig):
    return BareClient(rig)


@pytest.mark.parametrize("mechanism", ALL.split(","))
def test_bare_tokens_log_in(client, mechanism):
    assert client.log_in_bare(mechanism) is not None
    assert client.connection.principal == "User:ann"
    assert client.metadata() is not None
    assert client.handshake(mechanism, version=0).error_code == ErrorCode.illegal_sasl_state


@pytest.mark.parametrize("mechanism", ALL.split(","))
def test_wrong_password_in_a_bare_token_gets_a_late_close_and_no_answer(rig, client, mechanism):
    begun_ms = rig.world.now_ms
    assert client.log_in_bare(mechanism, password="wrong") is None
    assert not client.is_open
    assert rig.world.now_ms - begun_ms >= 100
    (notice,) = [each for each in rig.node.notices if each.event == "login-refused"]
    assert notice.fields["user"] == "ann"


def test_unknown_mechanism_is_answered_in_a_handshake_v0(rig, client):
    assert client.handshake("GSSAPI", version=0).error_code == ErrorCode.unsupported_sasl_mechanism
    rig.run_for(10)
    assert not client.is_open


def test_request_in_the_place_of_a_bare_token_fails_the_login(rig, client):
    client.handshake("PLAIN", version=0)
    assert client.token(PlainToken("ann", PASSWORD).encode()) is None
    rig.run_for(200)
    assert not client.is_open


def test_token_behind_a_bare_token_whose_password_is_checked_closes_the_connection(rig, client):
    client.handshake("PLAIN", version=0)
    token = PlainToken("ann", PASSWORD).encode()
    rig.node.receive(client.connection_id, [token, token])
    rig.run_for(200)
    assert not client.is_open


def test_bare_token_beyond_the_receive_size_closes_the_connection(client):
    client.handshake("PLAIN", version=0)
    assert client.bare(b"x" * 600_000) is None
    assert not client.is_open


def test_bare_tokens_log_in_again_in_time():
    client = BareClient(make_rig(connections_max_reauth_ms="60000"))
    client.log_in_bare("PLAIN")
    client.rig.run_for(50_000)
    assert client.log_in_bare("PLAIN") is not None
    client.rig.run_for(50_000)
    assert client.metadata() is not None
    assert client.log_in("PLAIN").error_code == ErrorCode.none
    assert client.metadata() is not None


def test_broker_needs_framed_tokens_for_its_proof(client):
    assert client.handshake(PEER_MECHANISM, version=0).error_code == ErrorCode.illegal_sasl_state


def test_broker_proves_itself_with_framed_tokens_after_a_bare_login(client):
    client.log_in_bare("PLAIN")
    assert client.handshake(PEER_MECHANISM).error_code == ErrorCode.none
    answer = client.token(b"no hello")
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.sasl_authentication_failed,
        "the broker's authentication failed",
    )


def test_bare_token_is_served_under_a_quota_of_request_time():
    """The quota counts requests by the client id of their header, and a bare token has no header."""
    client = BareClient(make_rig())
    entity = [{"entity_type": "user", "entity_name": None}]
    ops = [{"key": "request_percentage", "value": 50.0, "remove": False}]
    client.rig.ask(49, 1, entries=[{"entity": entity, "ops": ops}])
    client.rig.run_for(100)
    assert client.log_in_bare("PLAIN") is not None
    assert client.metadata() is not None


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(ALL.split(",")), st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=4))
def test_random_bare_tokens_do_not_log_in_and_the_broker_continues(mechanism, tokens):
    client = BareClient(Rig(settings={"sasl.enabled.mechanisms": ALL}))
    client.handshake(mechanism, version=0)
    for token in tokens:
        if client.is_open:
            client.bare(token)
    assert client.connection.principal == ANONYMOUS
    assert client.connection.login is None or client.connection.login.state is not LoginState.DONE
    assert client.rig.ask(18, 0) is not None
    assert not [each for each in client.rig.node.notices if each.event == "request-failed"]
