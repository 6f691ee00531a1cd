"""Logins on a listener with SASL, request by request: what is admitted, answered, delayed and closed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker.login_client import (
    ALL,
    API_VERSIONS,
    AUTHENTICATE,
    HANDSHAKE,
    METADATA,
    NAMES,
    PASSWORD,
    Client,
    make_rig,
)
from yak.broker.connections import LoginState
from yak.broker.login import PasswordCheck
from yak.limits import LOGIN_MS_MAX
from yak.protocol.peer_proof import MECHANISM as PEER_MECHANISM
from yak.security import ANONYMOUS
from yak.security.plain import PlainToken
from yak.security.scram import MECHANISMS, ScramCredential


@pytest.fixture
def rig():
    return make_rig()


@pytest.fixture
def client(rig):
    return Client(rig)


@pytest.mark.parametrize("user", NAMES)
@pytest.mark.parametrize("mechanism", ALL.split(","))
def test_login_with_the_password_admits_all_requests(client, mechanism, user):
    assert client.connection.principal == ANONYMOUS
    answer = client.log_in(mechanism, user)
    assert (answer.error_code, answer.session_lifetime.total_seconds()) == (ErrorCode.none, 0)
    assert client.connection.principal == f"User:{user}"
    assert client.metadata() is not None


@pytest.mark.parametrize("user", ["ann", "unknown"])
@pytest.mark.parametrize("mechanism", ALL.split(","))
def test_wrong_password_and_unknown_user_get_the_same_delayed_answer_and_a_close(rig, client, mechanism, user):
    begun_ms = rig.world.now_ms
    answer = client.log_in(mechanism, user, "wrong")
    assert answer.error_code == ErrorCode.sasl_authentication_failed
    assert answer.error_message == (
        "Authentication failed: Invalid username or password"
        if mechanism == "PLAIN"
        else f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )
    assert rig.world.now_ms - begun_ms >= 100
    rig.run_for(10)
    assert not client.is_open


def test_login_refused_is_logged_without_the_password(rig, client):
    client.log_in("PLAIN", "ann", "wrong password")
    (notice,) = [each for each in rig.node.notices if each.event == "login-refused"]
    assert notice.fields["user"] == "ann"
    assert "wrong password" not in repr(rig.node.notices)


def test_login_before_the_broker_has_joined_the_cluster_closes_the_connection(rig, client):
    rig.node.broker.takes_clients = False
    assert client.handshake("SCRAM-SHA-256") is None
    assert not client.is_open
    assert "login-refused" not in [each.event for each in rig.node.notices]


def test_broker_proves_itself_before_the_broker_has_joined_the_cluster(rig, client):
    rig.node.broker.takes_clients = False
    assert client.handshake(PEER_MECHANISM).error_code == ErrorCode.none


def test_unknown_mechanism_gets_the_enabled_ones_and_a_close(rig, client):
    answer = client.handshake("GSSAPI")
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.unsupported_sasl_mechanism, tuple(ALL.split(",")))
    rig.run_for(10)
    assert not client.is_open


def test_plain_is_refused_unless_it_is_enabled():
    plain = Client(make_rig(sasl_enabled_mechanisms="SCRAM-SHA-512"))
    answer = plain.handshake("PLAIN")
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.unsupported_sasl_mechanism, ("SCRAM-SHA-512",))


def test_api_versions_is_answered_before_the_login(client):
    assert client.ask(API_VERSIONS, 3, client_software_name="a", client_software_version="1").error_code == 0
    assert client.log_in("PLAIN").error_code == ErrorCode.none


@pytest.mark.parametrize("api_key", [HANDSHAKE, API_VERSIONS, METADATA])
def test_request_between_handshake_and_token_closes_the_connection(client, api_key):
    client.handshake("PLAIN")
    answer = {
        HANDSHAKE: lambda: client.handshake("PLAIN"),
        API_VERSIONS: lambda: client.ask(API_VERSIONS, 0),
        METADATA: client.metadata,
    }[api_key]()
    assert answer is None
    assert not client.is_open


def test_token_without_a_handshake_closes_the_connection(client):
    assert client.token(b"\0ann\0secret") is None
    assert not client.is_open


def test_requests_behind_a_password_are_served_after_the_login(rig, client):
    """Kafka handles one request of a connection at a time; here the second one closed the connection."""
    rig.begin(HANDSHAKE, 1, client=client.channel, mechanism="PLAIN")
    token = rig.begin(AUTHENTICATE, 2, client=client.channel, auth_bytes=PlainToken("ann", PASSWORD).encode())
    assert client.metadata().cluster_id
    assert token.answer.error_code == ErrorCode.none


def test_requests_behind_a_wrong_password_are_not_served_and_the_refusal_is_answered(rig, client):
    rig.begin(HANDSHAKE, 1, client=client.channel, mechanism="PLAIN")
    token = rig.begin(AUTHENTICATE, 2, client=client.channel, auth_bytes=PlainToken("ann", "wrong").encode())
    assert client.metadata() is None
    assert token.answer.error_code == ErrorCode.sasl_authentication_failed
    assert not client.is_open


def test_large_request_before_the_login_closes_the_connection(client):
    client.handshake("PLAIN")
    assert client.token(b"x" * 600_000) is None
    assert not client.is_open


def test_name_of_a_megabyte_is_refused():
    client = Client(make_rig(sasl_server_max_receive_size="10000000"))
    assert client.log_in("SCRAM-SHA-256", "n" * 1_000_000).error_code == ErrorCode.sasl_authentication_failed


@pytest.mark.parametrize("token", [b"", b"\0", b"\0ann\0", b"n,,n=ann,r=abc,tokenauth=true", b"\xff\xfe"])
@pytest.mark.parametrize("mechanism", ALL.split(","))
def test_bad_token_fails_the_login(client, mechanism, token):
    client.handshake(mechanism)
    assert client.token(token).error_code == ErrorCode.sasl_authentication_failed


def test_connection_without_a_login_is_closed_in_time(rig, client):
    rig.run_for(LOGIN_MS_MAX - 1_000)
    assert client.ask(API_VERSIONS, 0) is not None
    rig.run_for(2_000)
    assert not client.is_open


def test_logged_in_connection_stays_open_and_gets_no_second_login(rig, client):
    client.log_in("SCRAM-SHA-256")
    rig.run_for(2 * LOGIN_MS_MAX)
    assert client.handshake("SCRAM-SHA-256").error_code == ErrorCode.illegal_sasl_state
    answer = client.token(b"x")
    assert answer.error_code == ErrorCode.illegal_sasl_state
    assert answer.error_message == "SaslAuthenticate request received after successful authentication"
    assert client.metadata() is not None


def test_connection_on_a_listener_without_sasl_gets_illegal_sasl_state(rig):
    answer = rig.ask(HANDSHAKE, 1, mechanism="PLAIN")
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.illegal_sasl_state, ())
    assert rig.ask(AUTHENTICATE, 2, auth_bytes=b"\0ann\0secret").error_code == ErrorCode.illegal_sasl_state


def test_failed_proof_of_a_broker_leaves_a_connection_that_needs_a_login(client):
    assert client.handshake(PEER_MECHANISM).mechanisms == (PEER_MECHANISM,)
    assert client.token(b"no hello").error_code == ErrorCode.sasl_authentication_failed
    assert client.connection.login.state is LoginState.HANDSHAKE
    assert client.metadata() is None


# ------------------------------------------------------------------------------------------------ re-authentication


@pytest.fixture
def short():
    return Client(make_rig(connections_max_reauth_ms="5000"))


def test_login_with_an_end_names_its_lifetime_and_a_request_after_it_closes_the_connection(short):
    assert short.log_in("SCRAM-SHA-512").session_lifetime.total_seconds() == 5
    short.rig.run_for(4_000)
    assert short.metadata() is not None
    short.rig.run_for(2_000)
    assert short.is_open
    assert short.metadata() is None
    assert not short.is_open


@pytest.mark.parametrize("waited_ms", [2_000, 6_000])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_another_login_prolongs_the_connection(short, mechanism, waited_ms):
    short.log_in(mechanism)
    short.rig.run_for(waited_ms)
    assert short.log_in(mechanism).session_lifetime.total_seconds() == 5
    short.rig.run_for(4_000)
    assert short.metadata() is not None


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_another_login_within_a_second_of_the_first_prolongs_the_connection(mechanism):
    soon = Client(make_rig(connections_max_reauth_ms="500"))
    soon.log_in(mechanism)
    soon.rig.run_for(400)
    assert soon.log_in(mechanism).error_code == ErrorCode.none
    soon.rig.run_for(400)
    assert soon.metadata() is not None


def test_third_login_within_a_second_of_the_second_is_refused(short):
    short.log_in("PLAIN")
    short.log_in("PLAIN")
    assert short.handshake("PLAIN").error_code == ErrorCode.illegal_sasl_state
    assert short.metadata() is not None
    short.rig.run_for(1_000)
    assert short.handshake("PLAIN").error_code == ErrorCode.none


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_another_login_as_another_user_is_refused(short, mechanism):
    short.log_in(mechanism)
    short.rig.run_for(2_000)
    assert short.log_in(mechanism, "a,b=c").error_code == ErrorCode.sasl_authentication_failed
    assert short.connection.principal == "User:ann"


def test_another_login_with_another_mechanism_is_refused(short):
    short.log_in("PLAIN")
    short.rig.run_for(2_000)
    answer = short.handshake("SCRAM-SHA-256")
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.unsupported_sasl_mechanism, ("PLAIN",))


# --------------------------------------------------------------------------------------------------- any requests

STEPS = st.one_of(
    st.tuples(st.just(HANDSHAKE), st.sampled_from([*ALL.split(","), PEER_MECHANISM, "X", ""])),
    st.tuples(
        st.just(AUTHENTICATE), st.one_of(st.binary(max_size=40), st.sampled_from([b"n,,n=ann,r=x", b"\0ann\0x"]))
    ),
    st.tuples(st.sampled_from([API_VERSIONS, METADATA]), st.none()),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(STEPS, max_size=6))
def test_no_sequence_of_requests_without_the_password_logs_in(steps):
    client = Client(Rig(settings={"sasl.enabled.mechanisms": ALL}))
    for api_key, value in steps:
        if not client.is_open:
            break
        if api_key == HANDSHAKE:
            client.handshake(value)
        elif api_key == AUTHENTICATE:
            client.token(value)
        elif api_key == API_VERSIONS:
            client.ask(API_VERSIONS, 0)
        else:
            assert client.metadata() is None
    assert client.connection.principal == ANONYMOUS
    assert client.connection.login is None or client.connection.login.state is not LoginState.DONE
    assert client.rig.ask(API_VERSIONS, 0) is not None
    assert not [each for each in client.rig.node.notices if each.event == "request-failed"]


def test_repr_of_a_password_check_hides_the_password():
    mechanism = MECHANISMS["SCRAM-SHA-256"]
    check = PasswordCheck(mechanism, ScramCredential.unknown(mechanism, "u", b"x"), "the password")
    assert "the password" not in repr(check)
