"""Delegation tokens: created, renewed, expired, described, used to log in, and shown nowhere."""

import datetime as dt
import json

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker.login_client import Client, make_rig
from tests.unit.broker.requests import restart
from tests.unit.broker.views_of_changes import views_of
from yak.cluster.records import TOKEN
from yak.cluster.topic_changes import plan_alter
from yak.core.events import WallClockMoved
from yak.errors import PeerError
from yak.limits import RENEWERS_PER_TOKEN_MAX
from yak.security.delegation_tokens import hmac_of, password_of
from yak.security.scram import MECHANISMS

SECRET, HOUR_MS, DAY_MS = "the brokers' secret", 3_600_000, 86_400_000
DEFAULT = dt.timedelta(milliseconds=-1)


def token_rig(**configs):
    return make_rig(delegation_token_secret_key=SECRET, **configs)


@pytest.fixture
def rig():
    return token_rig()


def logged_in(rig, user="ann"):
    client = Client(rig)
    assert client.log_in("PLAIN", user).error_code == ErrorCode.none
    return client


@pytest.fixture
def ann(rig):
    return logged_in(rig)


@pytest.fixture
def other(rig):
    return logged_in(rig, "a,b=c")


def create(client, *renewers, lifetime=DEFAULT, version=3, owner=None, kind="User"):
    fields = {"owner_principal_type": kind if owner else None, "owner_principal_name": owner} if version == 3 else {}
    named = [{"principal_type": "User", "principal_name": name} for name in renewers]
    return client.ask(38, version, renewers=named, max_lifetime=lifetime, **fields)


def renew(client, hmac, period=DEFAULT):
    return client.ask(39, 2, hmac=hmac, renew_period=period)


def expire(client, hmac, period=DEFAULT):
    return client.ask(40, 2, hmac=hmac, expiry_time_period=period)


def describe(client, *owners, version=3):
    named = [{"principal_type": "User", "principal_name": name} for name in owners] or None
    answer = client.ask(41, version, owners=named)
    return answer.error_code or {token.token_id: token for token in answer.tokens}


def by_token(rig, created, mechanism="SCRAM-SHA-256"):
    client = Client(rig)
    return client, client.log_in(mechanism, created.token_id, password_of(created.hmac), is_token=True)


def pass_days(rig, days):
    """Put the wall clock ahead of that of the timers: simulated days take long."""
    rig.node.broker.step(WallClockMoved(int(days * DAY_MS)), rig.world.now_ms)


def now_ms(rig):
    return rig.node.broker.context.clock.wall_ms


def milliseconds(time):
    return round(time.timestamp() * 1000)


# ------------------------------------------------------------------------------------------------------------- create


@pytest.mark.parametrize("version", [1, 2, 3])
def test_token_is_created_for_the_client(rig, ann, version):
    created = create(ann, version=version)
    assert (created.error_code, created.principal_type, created.principal_name) == (ErrorCode.none, "User", "ann")
    assert created.hmac == hmac_of(SECRET, created.token_id)
    assert len(created.token_id) == 22
    issued_ms = milliseconds(created.issue_timestamp)
    assert abs(issued_ms - rig.world.now_ms) < 1_000
    assert milliseconds(created.expiry_timestamp) == issued_ms + DAY_MS
    assert milliseconds(created.max_timestamp) == issued_ms + 7 * DAY_MS


def test_lifetime_of_a_token_is_bounded_by_the_configs():
    rig = token_rig(delegation_token_max_lifetime_ms="5000", delegation_token_expiry_time_ms="9000")
    created = create(logged_in(rig), lifetime=dt.timedelta(days=9))
    assert created.max_timestamp - created.issue_timestamp == dt.timedelta(seconds=5)
    assert created.expiry_timestamp == created.max_timestamp
    shorter = create(logged_in(rig), lifetime=dt.timedelta(seconds=2))
    assert shorter.max_timestamp - shorter.issue_timestamp == dt.timedelta(seconds=2)


@pytest.mark.parametrize("lifetime_ms", [1_001, 1_003, 1_009])
def test_lifetime_of_a_token_is_exact_to_the_millisecond(ann, lifetime_ms):
    created = create(ann, lifetime=dt.timedelta(milliseconds=lifetime_ms))
    assert milliseconds(created.max_timestamp) - milliseconds(created.issue_timestamp) == lifetime_ms


def test_token_for_another_owner_needs_an_authorizer(ann):
    assert create(ann, owner="ann").error_code == ErrorCode.none
    refused = create(ann, owner="bob")
    assert refused.error_code == ErrorCode.delegation_token_authorization_failed
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "ann")
    assert (refused.token_id, refused.hmac) == ("", b"")
    assert create(ann, owner="bob", kind="Group").error_code == ErrorCode.invalid_principal_type


def test_bad_renewers_are_refused(ann):
    bad = ann.ask(38, 1, renewers=[{"principal_type": "Group", "principal_name": "g"}], max_lifetime=DEFAULT)
    assert bad.error_code == ErrorCode.invalid_principal_type
    assert create(ann, "").error_code == ErrorCode.invalid_request
    assert create(ann, "x" * 300).error_code == ErrorCode.invalid_request
    many = [f"user-{number}" for number in range(RENEWERS_PER_TOKEN_MAX + 1)]
    assert create(ann, *many).error_code == ErrorCode.invalid_request
    assert create(ann, *many[1:]).error_code == ErrorCode.none


def test_more_tokens_than_the_limit_are_refused(ann, monkeypatch):
    monkeypatch.setattr("yak.broker.apis.delegation_tokens.DELEGATION_TOKENS_MAX", 1)
    assert create(ann).error_code == ErrorCode.none
    assert create(ann).error_code == ErrorCode.policy_violation


def test_creation_that_the_store_does_not_confirm_times_out(rig, ann, monkeypatch):
    monkeypatch.setattr(rig.node.broker.metadata, "begin_own", lambda _requests, _done: 7)
    monkeypatch.setattr(rig.node.broker.metadata, "abandon", lambda _change_id: None)
    monkeypatch.setattr("yak.broker.apis.delegation_tokens._TIMEOUT_MS", 1_000)
    created = create(ann)
    assert (created.error_code, created.hmac) == (ErrorCode.request_timed_out, b"")
    assert describe(ann) == {}


def test_creation_that_the_store_refuses_gets_its_error(rig, ann, monkeypatch):
    def refuse(_requests, _done):
        raise PeerError(ErrorCode.kafka_storage_error)

    monkeypatch.setattr(rig.node.broker.metadata, "begin_own", refuse)
    assert create(ann).error_code == ErrorCode.kafka_storage_error
    assert rig.node.broker.image.delegation_tokens == {}


def test_creation_whose_connection_is_closed_changes_nothing(rig, ann):
    rig.begin(38, 1, client=ann.channel, renewers=[], max_lifetime=DEFAULT)
    rig.node.broker.close_connection(ann.connection, "test")
    rig.run_for(1_000)
    assert not [each for each in rig.node.notices if each.level == "error"]


# --------------------------------------------------------------------------------------------------------- who may ask


def test_client_without_a_login_is_refused(rig):
    refused = ErrorCode.delegation_token_request_not_allowed
    answer = rig.ask(38, 1, renewers=[], max_lifetime=DEFAULT)
    assert answer.error_code == refused
    assert rig.ask(39, 1, hmac=b"x", renew_period=DEFAULT).error_code == refused
    assert rig.ask(40, 1, hmac=b"x", expiry_time_period=DEFAULT).error_code == refused
    assert rig.ask(41, 1, owners=None).error_code == refused


def test_client_that_logged_in_by_a_token_is_refused(rig, ann):
    created = create(ann)
    client, answer = by_token(rig, created)
    assert answer.error_code == ErrorCode.none
    refused = ErrorCode.delegation_token_request_not_allowed
    assert create(client).error_code == refused
    assert renew(client, created.hmac).error_code == refused
    assert expire(client, created.hmac).error_code == refused
    assert describe(client) == refused


def test_tokens_are_disabled_without_the_secret():
    client = logged_in(make_rig())
    disabled = ErrorCode.delegation_token_auth_disabled
    created = create(client)
    assert (created.error_code, created.principal_name) == (disabled, "ann")
    assert renew(client, b"x").error_code == disabled
    assert expire(client, b"x").error_code == disabled
    assert describe(client) == disabled


# --------------------------------------------------------------------------------------------------- renew and expire


def test_owner_and_renewer_renew_a_token_until_its_last_day(rig, ann, other):
    created = create(ann, "a,b=c")
    pass_days(rig, HOUR_MS / DAY_MS)
    renewed = renew(other, created.hmac)
    assert renewed.error_code == ErrorCode.none
    assert abs(milliseconds(renewed.expiry_timestamp) - now_ms(rig) - DAY_MS) < 1_000
    shorter = renew(ann, created.hmac, dt.timedelta(hours=2))
    assert abs(milliseconds(shorter.expiry_timestamp) - now_ms(rig) - 2 * HOUR_MS) < 1_000
    renew(ann, created.hmac)
    for day in range(1, 8):
        pass_days(rig, day * 0.9)
        renewed = renew(ann, created.hmac)
    assert renewed.expiry_timestamp == created.max_timestamp


def test_stranger_and_unknown_hmac_are_refused(ann, other):
    created = create(ann)
    assert renew(other, created.hmac).error_code == ErrorCode.delegation_token_owner_mismatch
    assert expire(other, created.hmac).error_code == ErrorCode.delegation_token_owner_mismatch
    for unknown in (b"", b"x", created.hmac[:-1]):
        assert renew(ann, unknown).error_code == ErrorCode.delegation_token_not_found
        assert expire(ann, unknown).error_code == ErrorCode.delegation_token_not_found


def test_expired_token_is_neither_renewed_nor_used(rig, ann):
    created = create(ann)
    expired = expire(ann, created.hmac, dt.timedelta(seconds=5))
    assert abs(milliseconds(expired.expiry_timestamp) - rig.world.now_ms - 5_000) < 1_000
    rig.run_for(6_000)
    assert renew(ann, created.hmac).error_code == ErrorCode.delegation_token_expired
    assert expire(ann, created.hmac, dt.timedelta(seconds=5)).error_code == ErrorCode.delegation_token_expired
    assert by_token(rig, created)[1].error_code == ErrorCode.sasl_authentication_failed
    notice = [each for each in rig.node.notices if each.event == "login-refused"][-1]
    assert "has expired" in notice.fields["reason"]
    assert expire(ann, created.hmac).error_code == ErrorCode.none


def test_negative_period_removes_a_token_at_once(rig, ann):
    created, kept = create(ann), create(ann)
    assert expire(ann, created.hmac).error_code == ErrorCode.none
    assert list(describe(ann)) == [kept.token_id]
    assert expire(ann, created.hmac).error_code == ErrorCode.delegation_token_not_found
    assert by_token(rig, created)[1].error_code == ErrorCode.sasl_authentication_failed


def test_controller_removes_expired_tokens(rig):
    rig = token_rig(delegation_token_expiry_check_interval_ms="10000", delegation_token_expiry_time_ms="3000")
    ann = logged_in(rig)
    created = create(ann)
    rig.run_for(5_000)
    assert list(describe(ann)) == [created.token_id]
    rig.run_for(10_000)
    assert describe(ann) == {}
    assert rig.node.broker.image.delegation_tokens == {}
    (notice,) = [each for each in rig.node.notices if each.event == "delegation-token-expired"]
    assert notice.fields == {"token": created.token_id}


def test_token_that_was_renewed_while_it_was_removed_is_no_token(rig):
    rig = token_rig(delegation_token_expiry_check_interval_ms="10000")
    ann, broker = logged_in(rig), rig.node.broker
    broker.metadata.begin_own(plan_alter(TOKEN, "half", {"expires_ms": "7"}), lambda *_: None)
    rig.run_for(100)
    created = create(ann)
    assert list(broker.image.delegation_tokens) == ["half", created.token_id]
    assert list(describe(ann)) == [created.token_id]
    assert renew(ann, hmac_of(SECRET, "half")).error_code == ErrorCode.delegation_token_not_found
    rig.run_for(11_000)
    assert list(rig.node.broker.image.delegation_tokens) == [created.token_id]


def change_elsewhere(rig, token_id, configs, *, replace=False):
    """Change a token in the metadata as another broker does: this broker gets newer records after `hear`."""
    rig.node.store_line.is_deaf = True
    rig.node.broker.metadata.begin_own(plan_alter(TOKEN, token_id, configs, replace=replace), lambda *_: None)
    rig.run_for(100)


def hear(rig):
    rig.node.store_line.is_deaf = False
    rig.node.store_line.store_moved()
    rig.run_for(100)


def test_token_renewed_by_another_broker_is_not_removed_as_expired():
    rig = token_rig(delegation_token_expiry_check_interval_ms="10000", delegation_token_expiry_time_ms="9000")
    ann = logged_in(rig)
    created = create(ann)
    change_elsewhere(rig, created.token_id, {"expires_ms": str(now_ms(rig) + HOUR_MS)})
    rig.run_for(10_000)
    hear(rig)
    assert list(describe(ann)) == [created.token_id]
    assert not [each for each in rig.node.notices if each.event == "delegation-token-expired"]


@pytest.mark.parametrize(("api_key", "period"), [(39, "renew_period"), (40, "expiry_time_period")])
def test_change_of_a_token_that_another_broker_removed_is_refused(rig, ann, api_key, period):
    created = create(ann)
    change_elsewhere(rig, created.token_id, {}, replace=True)
    named = {"hmac": created.hmac, period: dt.timedelta(hours=1)}
    pending = rig.begin(api_key, 2, client=ann.channel, **named)
    rig.run_for(100)
    hear(rig)
    assert pending.answer.error_code == ErrorCode.delegation_token_not_found
    assert rig.node.broker.image.delegation_tokens == {}


# ----------------------------------------------------------------------------------------------------------- describe


def test_clients_describe_their_own_tokens_and_those_that_they_may_renew(ann, other):
    own, shared = create(ann), create(ann, "a,b=c")
    assert set(describe(ann)) == {own.token_id, shared.token_id}
    (found,) = describe(other).values()
    assert (found.token_id, found.principal_name, found.hmac) == (shared.token_id, "ann", shared.hmac)
    assert [renewer.principal_name for renewer in found.renewers] == ["a,b=c"]
    assert found.issue_timestamp == milliseconds(shared.issue_timestamp)
    assert describe(ann, "bob") == {}
    assert set(describe(ann, "a,b=c")) == {shared.token_id}
    assert ann.ask(41, 3, owners=[]).tokens == ()


# -------------------------------------------------------------------------------------------------------------- logins


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_client_logs_in_by_a_token_as_its_owner(rig, ann, mechanism):
    created = create(ann, lifetime=dt.timedelta(minutes=1))
    client, answer = by_token(rig, created, mechanism)
    assert answer.error_code == ErrorCode.none
    assert client.connection.principal == "User:ann"
    assert 50 < answer.session_lifetime.total_seconds() <= 60
    assert client.metadata() is not None
    rig.run_for(60_000)
    assert client.metadata() is None


def test_token_is_no_user_and_a_user_is_no_token(rig, ann):
    created = create(ann)
    password = password_of(created.hmac)
    assert Client(rig).log_in("SCRAM-SHA-256", created.token_id, password).error_code
    assert Client(rig).log_in("PLAIN", created.token_id, password).error_code
    assert Client(rig).log_in("SCRAM-SHA-256", is_token=True).error_code
    assert Client(rig).log_in("SCRAM-SHA-256", created.token_id, "wrong", is_token=True).error_code
    unknown = Client(rig).log_in("SCRAM-SHA-256", "unknown", password, is_token=True)
    assert unknown.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )


def test_login_by_a_token_is_refused_without_the_secret():
    rig = make_rig()
    assert Client(rig).handshake("SCRAM-SHA-256").error_code == ErrorCode.none
    client = Client(rig)
    client.handshake("SCRAM-SHA-256")
    assert client.token(b"n,,n=id,r=abc,tokenauth=true").error_code == ErrorCode.sasl_authentication_failed
    (notice,) = [each for each in rig.node.notices if each.event == "login-refused"]
    assert "delegation.token.secret.key is not set" in notice.fields["reason"]


# ------------------------------------------------------------------------------------------------ kept, and not shown


def test_a_restart_keeps_tokens(rig, ann):
    created = create(ann)
    restart(rig)
    assert list(describe(logged_in(rig))) == [created.token_id]


def test_no_view_and_no_record_shows_an_hmac_or_a_key(rig, ann):
    before = rig.node.broker.image
    created = create(ann)
    configs = rig.node.broker.image.delegation_tokens[created.token_id]
    secrets = [part.split("=", 1)[1] for name in MECHANISMS for part in configs[name].split(",")[:3]]
    secrets += [password_of(created.hmac), created.hmac.hex(), SECRET]
    (record,) = [each for each in rig.store.state.log if each.payload.get("resource_type") == TOKEN]
    assert password_of(created.hmac) not in json.dumps(record.payload)
    shown = [*views_of(rig, before, record, created.token_id), repr(rig.node.broker.config)]
    for secret in secrets:
        assert not [text for text in shown if secret in text]


def test_broker_without_tokens_does_not_load_them():
    assert Rig().node.broker.delegation_tokens is None
