"""Access tokens of OAUTHBEARER: signed JWTs (RFC 7519), verified with the keys of a JSON Web Key Set (RFC 7517).

Signatures are those of RSA (RS, PS) and of elliptic curves (ES); `none` and secrets shared with the issuer (HS) are never
accepted. The rules on claims are those of Kafka's BrokerJwtValidator and of jose4j's JwtConsumer behind it. PyJWT verifies
signatures; to import it takes tens of milliseconds, so this module is imported by jobs only.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import jwt
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from yak.errors import LoginRefused
from yak.limits import TOKEN_TIME_MAX_S
from yak.security.oauth_settings import AccessToken, Expectations, UnknownKey
from yak.security.scram import bad_user

_RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_EC_ALGORITHMS: Final = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",)}
ALGORITHMS: Final = (*_RSA_ALGORITHMS, *(name for names in _EC_ALGORITHMS.values() for name in names))
RSA_BITS_MIN: Final = 2048
"""RFC 7518, sections 3.3 and 3.5."""
KEYS_MAX: Final = 100
"""Keys of a set: a token without a key id is tried with each of them."""
KEY_ID_LENGTH_MAX: Final = 1000
"""Kafka's RefreshingHttpsJwks does not fetch longer ones either."""
_SECTIONS: Final = 3


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key, its id (None without one), and the algorithms for which it may be used."""

    key_id: str | None
    key: Any
    algorithms: tuple[str, ...]


@lru_cache(maxsize=8)
def key_set(document: bytes) -> tuple[VerificationKey, ...]:
    """The keys of a JSON Web Key Set that can verify signatures. Raises ValueError when there is none."""
    try:
        listed = json.loads(document)["keys"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise ValueError("it is no JSON Web Key Set (RFC 7517)") from None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise ValueError(f"its keys are no list of at most {KEYS_MAX}")
    found = tuple(key for each in listed if (key := _key_of(each)) is not None)
    if not found:
        raise ValueError("it has no public key for RSA or ECDSA signatures")
    return found


def _key_of(member: object) -> VerificationKey | None:
    """The key of a member of the set; None for one of another use, kind or strength (RFC 7517, sections 4 and 5)."""
    if not isinstance(member, dict):
        return None
    key_id, operations = member.get("kid"), member.get("key_ops", ["verify"])
    if member.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        return None
    try:
        key, algorithms = _public_key(member)
    except (jwt.PyJWTError, ValueError, KeyError, TypeError):
        return None
    named = member.get("alg")
    allowed = algorithms if named is None else tuple(each for each in algorithms if each == named)
    return VerificationKey(key_id if isinstance(key_id, str) else None, key, allowed) if allowed else None


def _public_key(member: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """Raises jwt.PyJWTError, ValueError, KeyError, TypeError for no such key. Only public members of it are read."""
    if member["kty"] == "RSA":
        key: Any = RSAAlgorithm.from_jwk({name: member[name] for name in ("kty", "n", "e")})
        if key.key_size < RSA_BITS_MIN:
            raise ValueError(f"an RSA key of less than {RSA_BITS_MIN} bits")
        return key, _RSA_ALGORITHMS
    if member["kty"] == "EC":
        return ECAlgorithm.from_jwk({name: member[name] for name in ("kty", "crv", "x", "y")}), _EC_ALGORITHMS[
            member["crv"]
        ]
    raise ValueError("a key of another type")


def verify(token: str, document: bytes, expected: Expectations, now_ms: int) -> AccessToken:
    """Verify a token's signature and claims.

    Raises LoginRefused, UnknownKey; ValueError for a bad `document`.
    """
    header = _header(token)
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise LoginRefused(f"the token's algorithm {str(algorithm)[:20]!r} is not accepted")
    if "crit" in header:
        raise LoginRefused("the token's header has critical extensions, which are not supported")
    keys = [key for key in key_set(document) if algorithm in key.algorithms]
    if key_id is not None:
        if not isinstance(key_id, str) or len(key_id) > KEY_ID_LENGTH_MAX:
            raise LoginRefused(f"the token's key id is no text of at most {KEY_ID_LENGTH_MAX} characters")
        if all(key.key_id != key_id for key in key_set(document)):
            raise UnknownKey(f"the key set has no key {key_id[:100]!r}")
        keys = [key for key in keys if key.key_id == key_id]
    for key in keys:
        try:
            payload = jwt.PyJWS([algorithm]).decode_complete(token, key.key, [algorithm])["payload"]
        except jwt.InvalidSignatureError:
            continue
        except jwt.PyJWTError as error:
            raise LoginRefused(f"the token is malformed: {error}") from None
        return _checked(_claims(payload), expected, now_ms)
    raise LoginRefused("no key of the set verifies the token's signature")


def read_unsecured(token: str, expected: Expectations, now_ms: int) -> AccessToken:
    """Check the claims of a token without a signature (Kafka's OAuthBearerUnsecuredJws). Raises LoginRefused."""
    _, payload, signature = _sections(token)
    if _header(token).get("alg") != "none" or signature:
        raise LoginRefused("the unsecured validator takes tokens with algorithm none and without a signature only")
    return _checked(_claims(_decoded(payload)), expected, now_ms, needs_issue_time=False)


def _sections(token: str) -> list[str]:
    sections = token.split(".")
    if len(sections) != _SECTIONS:
        raise LoginRefused(f"a token has {_SECTIONS} sections, and this one has {len(sections)}")
    return sections


def _header(token: str) -> dict[str, Any]:
    return _claims(_decoded(_sections(token)[0]))


def _decoded(section: str) -> bytes:
    try:
        return base64.b64decode(section + "=" * (-len(section) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise LoginRefused("a section of the token is not base64") from None


def _claims(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise LoginRefused("a section of the token is no JSON object")
    return found


def _checked(
    claims: Mapping[str, Any], expected: Expectations, now_ms: int, *, needs_issue_time: bool = True
) -> AccessToken:
    """Raises LoginRefused unless the claims are what is expected."""
    skew_ms = 1000 * expected.clock_skew_s
    expires_ms, issued_ms, begins_ms = (_time_ms(claims, name) for name in ("exp", "iat", "nbf"))
    if expires_ms is None:
        raise LoginRefused("the token has no expiration time (exp)")
    if issued_ms is None and needs_issue_time:
        raise LoginRefused("the token has no time of issue (iat)")
    if expires_ms + skew_ms <= now_ms:
        raise LoginRefused(f"the token expired {(now_ms - expires_ms) // 1000} s ago")
    if begins_ms is not None and begins_ms - skew_ms > now_ms:
        raise LoginRefused(f"the token is valid only in {(begins_ms - now_ms) // 1000} s")
    if any(begin is not None and begin > expires_ms for begin in (issued_ms, begins_ms)):
        raise LoginRefused("the token expires before it begins")
    _check_origin(claims, expected)
    user = claims.get(expected.sub_claim)
    if not isinstance(user, str) or bad_user(user.strip()):
        raise LoginRefused(f"the token's claim {expected.sub_claim} is not the name of a user")
    return AccessToken(user.strip(), expires_ms)


def _check_origin(claims: Mapping[str, Any], expected: Expectations) -> None:
    """Raises LoginRefused unless issuer, audience and scopes are what is expected."""
    if expected.issuer is not None and claims.get("iss") != expected.issuer:
        raise LoginRefused(f"the token's issuer is {str(claims.get('iss'))[:100]!r}, not {expected.issuer!r}")
    audiences = _texts(claims, "aud")
    if (audiences or expected.audiences) and not expected.audiences & set(audiences):
        wanted = ", ".join(sorted(expected.audiences)) or "none, as sasl.oauthbearer.expected.audience is not set"
        raise LoginRefused(f"the token's audience is {', '.join(audiences)[:100] or 'none'}; expected: {wanted}")
    scopes = [scope.strip() for scope in _texts(claims, expected.scope_claim)]
    if not all(scopes) or len(set(scopes)) < len(scopes):
        raise LoginRefused(f"the token's claim {expected.scope_claim} has an empty scope, or one twice")


def _texts(claims: Mapping[str, Any], name: str) -> list[str]:
    """A claim that is a text or a list of texts; empty without it."""
    value = claims.get(name, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise LoginRefused(f"the token's claim {name} is neither a text nor a list of texts")
    return values


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    """A claim with seconds since the epoch (RFC 7519's NumericDate) in ms; None without it."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < TOKEN_TIME_MAX_S:
        raise LoginRefused(f"the token's claim {name} is no time")
    return int(value * 1000)
