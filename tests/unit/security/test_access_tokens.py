"""Access tokens: every algorithm that is accepted, and every token that is not."""

import base64
import hashlib
import hmac
import json

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm

from tests.unit.security.issuer import NOW_MS, claims, key_set_of, member, private_key, token, unsigned
from yak.errors import LoginRefused
from yak.security.access_tokens import ALGORITHMS, KEYS_MAX, key_set, read_unsecured, verify
from yak.security.oauth_settings import AccessToken, Expectations, UnknownKey

ANY = Expectations(frozenset(), None, "scope", "sub", 30)
STRICT = Expectations(frozenset({"kafka", "yak"}), "https://issuer", "scp", "name", 0)
RSA_SET = key_set_of(member("RS256", "one"))
ANN = AccessToken("ann", NOW_MS + 3_600_000)


def refused(given_token, expected=ANY, document=RSA_SET, now_ms=NOW_MS):
    with pytest.raises(LoginRefused) as caught:
        verify(given_token, document, expected, now_ms)
    assert not caught.value.is_public
    return str(caught.value)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_token_of_each_algorithm_is_verified(algorithm):
    document = key_set_of(member("RS256", "r"), member("ES256", "e1"), member("ES384", "e2"), member("ES512", "e3"))
    assert verify(token(algorithm), document, ANY, NOW_MS) == ANN


@pytest.mark.parametrize("algorithm", ["RS256", "PS512", "ES384"])
def test_token_of_another_key_is_refused(algorithm):
    document = key_set_of(member(algorithm, "one"))
    assert "no key of the set verifies" in refused(token(algorithm, "one", number=1), document=document)
    assert "no key of the set verifies" in refused(token(algorithm, number=1), document=document)


def test_token_without_a_key_id_is_tried_with_each_key():
    document = key_set_of(member("RS256", "one"), member("RS256", "two", number=1))
    assert verify(token(number=1), document, ANY, NOW_MS) == ANN


def test_token_with_a_key_id_is_tried_with_that_key_only():
    document = key_set_of(member("RS256", "one"), member("RS256", "two", number=1))
    assert verify(token(key_id="two", number=1), document, ANY, NOW_MS) == ANN
    assert "no key of the set verifies" in refused(token(key_id="one", number=1), document=document)


def test_unknown_key_id_raises_its_own_error():
    with pytest.raises(UnknownKey):
        verify(token(key_id="new"), RSA_SET, ANY, NOW_MS)


@pytest.mark.parametrize("key_id", ["k" * 1001, 7, ["one"]])
def test_bad_key_id_is_refused_without_a_key_lookup(key_id):
    header = {"alg": "RS256", "kid": key_id}
    with pytest.raises(LoginRefused, match="key id") as caught:
        verify(unsigned(header, claims(), b"x"), RSA_SET, ANY, NOW_MS)
    assert not isinstance(caught.value, UnknownKey)


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "HS512", "EdDSA", "RS1", "", None, 7, ["RS256"]])
def test_other_algorithms_are_refused(algorithm):
    assert "is not accepted" in refused(unsigned({"alg": algorithm}, claims(), b"x"))


def test_public_key_as_a_shared_secret_is_refused():
    pem = private_key("RS256").public_key().public_numbers().n.to_bytes(256, "big")
    head = unsigned({"alg": "HS256", "kid": "one"}, claims()).rsplit(".", 1)[0]
    signature = hmac.digest(pem, head.encode(), hashlib.sha256)
    assert "is not accepted" in refused(f"{head}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}")


def test_algorithm_of_another_curve_is_refused():
    document = key_set_of(member("ES256", "one"))
    assert "no key of the set" in refused(token("ES384", "one"), document=document)


@pytest.mark.parametrize("more", [{"alg": "RS512"}, {"use": "enc"}, {"key_ops": ["sign"]}, {"key_ops": "verify"}])
def test_key_for_another_use_is_not_used(more):
    document = key_set_of(member("RS256", "one", **more), member("ES256", "two"))
    with pytest.raises(LoginRefused):
        verify(token(key_id="one"), document, ANY, NOW_MS)


def test_critical_header_is_refused():
    assert "critical" in refused(token(headers={"crit": ["exp"], "exp": 1}))


# ----------------------------------------------------------------------------------------------------------- claims


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"exp": None}, "no expiration time"),
        ({"iat": None}, "no time of issue"),
        ({"exp": "soon"}, "claim exp is no time"),
        ({"exp": True}, "claim exp is no time"),
        ({"exp": -1}, "claim exp is no time"),
        ({"exp": 10**30}, "claim exp is no time"),
        ({"exp": NOW_MS // 1000 - 31, "iat": 0}, "expired 31 s ago"),
        ({"nbf": NOW_MS // 1000 + 31}, "valid only in 31 s"),
        ({"iat": NOW_MS // 1000 + 3601}, "expires before it begins"),
        ({"nbf": [1]}, "claim nbf is no time"),
        ({"sub": None}, "claim sub is not the name of a user"),
        ({"sub": ""}, "claim sub is not the name of a user"),
        ({"sub": "  "}, "claim sub is not the name of a user"),
        ({"sub": "a" * 256}, "claim sub is not the name of a user"),
        ({"sub": "a\nb"}, "claim sub is not the name of a user"),
        ({"aud": "kafka"}, "audience is kafka; expected: none"),
        ({"aud": {"kafka": 1}}, "claim aud is neither"),
        ({"scope": ["a", "a"]}, "one twice"),
        ({"scope": [" "]}, "an empty scope"),
        ({"scope": 7}, "claim scope is neither"),
    ],
)
def test_token_with_wrong_claims_is_refused_with_the_reason(more, reason):
    signed = jwt.api_jws.encode(json.dumps(claims(**more)).encode(), private_key("RS256"), "RS256")
    assert reason in refused(signed)


def test_token_within_the_clock_skew_is_verified():
    late = token(exp=NOW_MS // 1000 - 29, iat=0)
    assert verify(late, RSA_SET, ANY, NOW_MS).expires_ms == NOW_MS - 29_000
    early = token(nbf=NOW_MS // 1000 + 29)
    assert verify(early, RSA_SET, ANY, NOW_MS) == ANN


def test_expected_claims_are_taken_from_the_configured_names():
    good = {"iss": "https://issuer", "aud": ["other", "yak"], "name": "bob", "sub": None, "scp": ["read", "write"]}
    assert verify(token(**good), RSA_SET, STRICT, NOW_MS).user == "bob"
    assert "issuer is 'x'" in refused(token(**good | {"iss": "x"}), STRICT)
    assert "issuer is 'None'" in refused(token(**good | {"iss": None}), STRICT)
    assert "audience is other; expected: kafka, yak" in refused(token(**good | {"aud": "other"}), STRICT)
    assert "audience is none" in refused(token(**good | {"aud": None}), STRICT)
    assert "claim name" in refused(token(**good | {"name": None}), STRICT)
    assert "claim scp" in refused(token(**good | {"scp": ["read", "read "]}), STRICT)


# -------------------------------------------------------------------------------------------------- malformed tokens


@pytest.mark.parametrize(
    "bad",
    ["", ".", "..", "a.b", "a.b.c.d", "!.!.!", "e30.e30.e30", "W10.e30.", f"{'x' * 100_000}.y.z", "." * 100_000],
)
def test_malformed_token_is_refused(bad):
    refused(bad)


def test_deeply_nested_payload_is_refused():
    signed = jwt.api_jws.encode(b"[" * 50_000, private_key("RS256"), "RS256")
    assert "no JSON object" in refused(signed)
    assert "no JSON object" in refused(unsigned({"alg": "RS256"}, b"{}", b"x").replace("eyJ", "W1tb", 1))


@settings(max_examples=60)
@given(st.data())
def test_token_with_changed_characters_is_refused_or_the_same(data):
    good = token(key_id="one")
    at = data.draw(st.integers(0, len(good) - 1))
    changed = good[:at] + data.draw(st.sampled_from("Aa0-_.=!")) + good[at + 1 :]
    try:
        assert verify(changed, RSA_SET, ANY, NOW_MS) == ANN
    except LoginRefused:
        return
    # only the unused bits of the last character of a section may differ
    decoded = [base64.urlsafe_b64decode(part + "==") for part in changed.split(".")]
    assert decoded == [base64.urlsafe_b64decode(part + "==") for part in good.split(".")]


@settings(max_examples=100)
@given(st.text(st.sampled_from("abcXYZ019-_.=~+/"), max_size=200))
def test_token_of_random_text_is_refused(text):
    refused(text)


# --------------------------------------------------------------------------------------------------------- key sets


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "no JSON Web Key Set"),
        (b"[]", "no JSON Web Key Set"),
        (b"{}", "no JSON Web Key Set"),
        (b"[" * 100_000, "no JSON Web Key Set"),
        (b'{"keys": 1}', "no list"),
        (b'{"keys": []}', "no public key"),
        (b'{"keys": [1, null, {}]}', "no public key"),
        (b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', "no public key"),
        (b'{"keys": [{"kty": "RSA", "n": "?", "e": "AQAB"}]}', "no public key"),
        (b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}', "no public key"),
        (b'{"keys": [{"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}]}', "no public key"),
        (json.dumps({"keys": [{}] * (KEYS_MAX + 1)}).encode(), "at most 100"),
    ],
)
def test_bad_key_set_is_refused(document, reason):
    with pytest.raises(ValueError, match=reason):
        key_set(document)


def test_short_rsa_key_is_not_used():
    short = json.loads(RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 1024).public_key()))
    short.pop("key_ops")
    with pytest.raises(ValueError, match="no public key"):
        key_set(key_set_of(short))


def test_private_members_of_a_key_are_not_read():
    whole = json.loads(RSAAlgorithm.to_jwk(private_key("RS256"))) | {"key_ops": ["sign", "verify"]}
    (key,) = key_set(key_set_of(whole))
    assert not hasattr(key.key, "private_numbers")


# ----------------------------------------------------------------------------------------------------- unsecured tokens


def test_unsecured_token_is_read():
    assert read_unsecured(unsigned({"alg": "none"}, claims(iat=None)), ANY, NOW_MS) == ANN


@pytest.mark.parametrize(
    "bad", [token(), unsigned({"alg": "none"}, claims(), b"x"), unsigned({}, claims()), unsigned({"alg": "none"}, [])]
)
def test_unsecured_validator_refuses_other_tokens(bad):
    with pytest.raises(LoginRefused):
        read_unsecured(bad, ANY, NOW_MS)


def test_unsecured_token_that_expired_is_refused():
    with pytest.raises(LoginRefused, match="expired"):
        read_unsecured(unsigned({"alg": "none"}, claims(exp=1, iat=0)), ANY, NOW_MS)
