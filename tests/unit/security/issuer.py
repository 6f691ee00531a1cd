"""An issuer of access tokens, with keys of each kind, for tests."""

import base64
import json
from functools import cache

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

NOW_MS = 1_800_000_000_000
CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}


def private_key(algorithm, number=0):
    """A key for an algorithm; those of another `number` are other keys."""
    return _made(algorithm, number)


@cache
def _made(algorithm, _number):
    if algorithm in CURVES:
        return ec.generate_private_key(CURVES[algorithm])
    return rsa.generate_private_key(65537, 2048)


def key_name(algorithm):
    """RSA's algorithms share a key."""
    return algorithm if algorithm in CURVES else "RS256"


def member(algorithm, key_id=None, number=0, **more):
    """The public key as a member of a JSON Web Key Set."""
    kind = ECAlgorithm if algorithm in CURVES else RSAAlgorithm
    found = json.loads(kind.to_jwk(private_key(key_name(algorithm), number).public_key()))
    found.pop("key_ops", None)
    return found | ({} if key_id is None else {"kid": key_id}) | more


def key_set_of(*members):
    """A JSON Web Key Set."""
    return json.dumps({"keys": list(members)}).encode()


def claims(now_ms=NOW_MS, **more):
    """The claims of a valid token, with changes; None removes one."""
    usual = {"sub": "ann", "iat": now_ms // 1000, "exp": now_ms // 1000 + 3600}
    return {name: value for name, value in (usual | more).items() if value is not None}


def token(algorithm="RS256", key_id=None, number=0, headers=None, now_ms=NOW_MS, **more):
    """A signed token."""
    headers = {**(headers or {}), **({} if key_id is None else {"kid": key_id})}
    return jwt.encode(
        claims(now_ms, **more), private_key(key_name(algorithm), number), algorithm, headers=headers or None
    )


def unsigned(header, payload, signature=b""):
    """A token of any header and payload."""
    parts = [json.dumps(header).encode(), payload if isinstance(payload, bytes) else json.dumps(payload).encode()]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (*parts, signature))
