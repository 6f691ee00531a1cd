"""The four requests on delegation tokens by hand, against a broker that answers one request."""

import datetime as dt

import pytest
from fake_brokers import ask
from kio.schema.errors import ErrorCode

from tests.errors import raises_error
from yak.client.delegation_tokens import (
    _TRY,
    WHY,
    TokenInfo,
    create_token,
    describe_tokens,
    expire_token,
    find_token,
    renew_token,
)
from yak.errors import Unreachable, YakError

TOKEN = TokenInfo("id", "ann", ("bob",), 1_000, 2_000, 3_000, b"secret")


FIELDS = {
    "principal_type": "User", "principal_name": "ann", "token_requester_principal_type": "User",
    "token_requester_principal_name": "ann", "issue_timestamp": 1_000, "expiry_timestamp": 2_000,
    "max_timestamp": 3_000, "token_id": "id", "hmac": b"secret",
}  # fmt: skip


def creation(code=ErrorCode.none):
    return FIELDS | {"error_code": code}


def test_token_is_created_with_its_renewers():
    request, found = ask(38, creation(), lambda address: create_token(address, ["bob"], None, owner=None, timeout_s=5))
    assert found == TOKEN
    assert (found.password, "secret" in repr(found)) == ("c2VjcmV0", False)
    assert [renewer.principal_name for renewer in request.renewers] == ["bob"]
    assert (request.owner_principal_name, request.max_lifetime) == (None, dt.timedelta(milliseconds=-1))
    request, _ = ask(38, creation(), lambda address: create_token(address, [], 5_000, owner="eve", timeout_s=5))
    assert (request.owner_principal_name, request.max_lifetime) == ("eve", dt.timedelta(seconds=5))


def test_tokens_are_described_and_found_by_id():
    answer = {"tokens": [FIELDS | {"renewers": [{"principal_type": "User", "principal_name": "bob"}]}]}
    request, found = ask(41, answer, lambda address: describe_tokens(address, timeout_s=5))
    assert (request.owners, found) == (None, [TOKEN])
    assert ask(41, answer, lambda address: find_token(address, "id", timeout_s=5))[1] == TOKEN
    with raises_error(YakError, "unknown-token"):
        ask(41, answer, lambda address: find_token(address, "other", timeout_s=5))


def test_token_is_renewed_and_expired():
    request, found = ask(
        39, {"expiry_timestamp": 9_000}, lambda address: renew_token(address, TOKEN, 7_000, timeout_s=5)
    )
    assert (request.hmac, request.renew_period, found) == (b"secret", dt.timedelta(seconds=7), 9_000)
    request, found = ask(
        40, {"expiry_timestamp": 4_000}, lambda address: expire_token(address, TOKEN, None, timeout_s=5)
    )
    assert (request.hmac, request.expiry_time_period, found) == (b"secret", dt.timedelta(milliseconds=-1), 4_000)


@pytest.mark.parametrize(
    ("code", "why", "try_"),
    [
        (ErrorCode.delegation_token_auth_disabled, "delegation.token.secret.key is not set", "yak serve --properties"),
        (ErrorCode.delegation_token_request_not_allowed, "the connection has no login", "yak context add NAME"),
        (ErrorCode.policy_violation, "the broker answered POLICY_VIOLATION", "yak help tokens-refused"),
    ],
)
def test_refusal_names_its_reason_and_what_helps(code, why, try_):
    with raises_error(YakError, "tokens-refused") as caught:
        ask(38, creation(code), lambda address: create_token(address, [], None, owner=None, timeout_s=5))
    assert why in caught.value.why
    assert caught.value.try_[0].startswith(try_)


def test_each_known_refusal_has_advice():
    assert WHY.keys() == _TRY.keys()


def test_broker_that_does_not_answer_is_unreachable():
    with pytest.raises(Unreachable):
        describe_tokens("127.0.0.1:1", timeout_s=1)


@pytest.mark.parametrize("answer", [creation(ErrorCode.request_timed_out), None])
def test_a_token_without_a_clear_answer_may_be_created_all_the_same(answer):
    with pytest.raises(YakError, match=r"^unknown: the token was created or not") as caught:
        ask(38, answer, lambda address: create_token(address, [], None, owner=None, timeout_s=5))
    assert (caught.value.code, caught.value.try_[0].split("  ")[0]) == ("timed-out", "yak tokens list")
