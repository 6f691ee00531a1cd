"""Delegation tokens as values: their HMAC, their credentials, and their form in the metadata."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.security.delegation_tokens import DelegationToken, hmac_of, new_credentials, password_of
from yak.security.scram import MECHANISMS, ScramCredential

PRINCIPALS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30).map("User:{}".format)
TIMES = st.integers(0, 2**63 - 1)


@given(PRINCIPALS, PRINCIPALS, st.lists(PRINCIPALS, max_size=3).map(tuple), TIMES, TIMES, TIMES)
def test_token_in_the_metadata_is_read_back(owner, requester, renewers, issued_ms, expires_ms, max_ms):
    credentials = dict.fromkeys(MECHANISMS, "keys")
    token = DelegationToken("id", owner, requester, renewers, issued_ms, expires_ms, max_ms, credentials)
    assert DelegationToken.of_configs("id", token.to_configs()) == token


@pytest.mark.parametrize("missing", ["owner", "renewers", "max_ms", "SCRAM-SHA-512"])
def test_token_that_is_not_whole_is_none(missing):
    token = DelegationToken("id", "User:a", "User:a", (), 1, 2, 3, dict.fromkeys(MECHANISMS, "keys"))
    configs = {name: value for name, value in token.to_configs().items() if name != missing}
    assert DelegationToken.of_configs("id", configs) is None
    assert DelegationToken.of_configs("id", {"expires_ms": "7"}) is None
    assert DelegationToken.of_configs("id", {**token.to_configs(), "max_ms": "soon"}) is None
    assert DelegationToken.of_configs("id", {**token.to_configs(), "renewers": "7"}) is None


def test_hmac_is_that_of_kafka():
    assert hmac_of("key", "id") == hmac.new(b"key", b"id", hashlib.sha512).digest()


def test_credentials_fit_the_hmac_in_base64_and_hide_in_the_repr():
    token_hmac = hmac_of("key", "id")
    credentials = new_credentials(token_hmac, b"salt")
    for name, mechanism in MECHANISMS.items():
        found = ScramCredential.parse(credentials[name])
        assert found.is_password(mechanism, password_of(token_hmac))
        assert not found.is_password(mechanism, password_of(hmac_of("key", "other")))
    token = DelegationToken("id", "User:a", "User:a", (), 1, 2, 3, credentials)
    assert "stored_key" not in repr(token)


@pytest.mark.parametrize(
    ("principal", "may_renew", "concerns"),
    [
        ("User:owner", True, True),
        ("User:renewer", True, True),
        ("User:requester", False, True),
        ("User:x", False, False),
    ],
)
def test_owner_renewers_and_requester_have_their_rights(principal, may_renew, concerns):
    token = DelegationToken("id", "User:owner", "User:requester", ("User:renewer",), 1, 2, 3, {})
    assert (token.may_renew(principal), principal in token.principals) == (may_renew, concerns)
