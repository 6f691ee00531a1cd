"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): stored credentials, and both ends of an exchange.

A credential has a salt, a stored key, a server key and a number of iterations. From these a password cannot be computed,
but a stored key verifies guesses and a server key impersonates a broker: both are secrets. As in Kafka's ScramFormatter,
passwords are UTF-8 without SASLprep, there is no channel binding, and 4,096 to 16,384 iterations are allowed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Final, Protocol

from yak.errors import LoginRefused

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
"""Kafka's ScramMechanism: the same bounds for both mechanisms."""
NONCE_BYTES: Final = 24
SALT_BYTES: Final = 24
USER_BYTES_MAX: Final = 255
"""Longer names are refused: each name is stored in the metadata and written into logs."""
_SALT_BYTES_MAX: Final = 1024
_GS2_HEADERS: Final = ("n", "y")
"""Without channel binding; `p=` would need TLS channel data, which Kafka does not support either."""
_PRINTABLE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")
TOKEN_AUTH: Final = "tokenauth"  # noqa: S105 - the name of an extension
"""KIP-48's extension for delegation tokens."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One SCRAM mechanism. `code` is its number in the user credential APIs (Kafka's ScramMechanism, KIP-554)."""

    name: str
    code: int
    digest: str

    def salt_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """RFC 5802's SaltedPassword: milliseconds of work, so a broker computes it in a job."""
        return hashlib.pbkdf2_hmac(self.digest, password.encode(), salt, iterations)

    def sign(self, key: bytes, message: bytes) -> bytes:
        """RFC 5802's HMAC."""
        return hmac.digest(key, message, self.digest)

    def hash(self, key: bytes) -> bytes:
        """RFC 5802's H."""
        return hashlib.new(self.digest, key).digest()

    def credential(self, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
        """The credential to store for a salted password."""
        stored_key = self.hash(self.sign(salted_password, b"Client Key"))
        return ScramCredential(salt, stored_key, self.sign(salted_password, b"Server Key"), iterations)


SCRAM_SHA_256: Final = Mechanism("SCRAM-SHA-256", 1, "sha256")
SCRAM_SHA_512: Final = Mechanism("SCRAM-SHA-512", 2, "sha512")
MECHANISMS: Final = {mechanism.name: mechanism for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)}
BY_CODE: Final = {mechanism.code: mechanism for mechanism in MECHANISMS.values()}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What is stored of a password. Its `repr` hides the keys, so that no log line can contain them."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    def to_text(self) -> str:
        """The form in the metadata, which is Kafka's (ScramCredentialUtils.credentialToString)."""
        salt, stored_key, server_key = map(_base64, (self.salt, self.stored_key, self.server_key))
        return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={self.iterations}"

    @classmethod
    def parse(cls, text: str) -> ScramCredential | None:
        """The credential of `to_text`; None when the text is invalid."""
        fields = dict(part.partition("=")[::2] for part in text.split(","))
        try:
            salt, stored_key, server_key = (_bytes(fields[name]) for name in ("salt", "stored_key", "server_key"))
            return cls(salt, stored_key, server_key, int(fields["iterations"]))
        except (KeyError, ValueError):
            return None

    @classmethod
    def unknown(
        cls, mechanism: Mechanism, user: str, secret: bytes, iterations: int = ITERATIONS_MIN
    ) -> ScramCredential:
        """The credential of a user that does not exist: its salt is the same each time, and no password fits it.

        With the iterations that users have, an exchange with an unknown user looks and lasts like one with a wrong
        password.
        """
        seed = mechanism.sign(secret, f"{mechanism.name} {user}".encode())
        stored_key, server_key = (mechanism.hash(seed + word) for word in (b"stored", b"server"))
        return cls(seed[:SALT_BYTES], stored_key, server_key, iterations)

    def is_password(self, mechanism: Mechanism, password: str) -> bool:
        """Whether this is the password; takes milliseconds, and the same time for every wrong one."""
        salted = mechanism.salt_password(password, self.salt, self.iterations)
        return hmac.compare_digest(mechanism.credential(salted, self.salt, self.iterations).stored_key, self.stored_key)


def bad_upsertion(user: str, salt: bytes, salted_password: bytes, iterations: int) -> str | None:
    """Why these values cannot be stored; None when they can (Kafka's ScramControlManager, and bounds of sizes)."""
    if problem := bad_user(user):
        return problem
    if iterations < ITERATIONS_MIN:
        return "Too few iterations"
    if iterations > ITERATIONS_MAX:
        return "Too many iterations"
    if not 0 < len(salt) <= _SALT_BYTES_MAX or not 0 < len(salted_password) <= _SALT_BYTES_MAX:
        return f"Salt and salted password must have 1 to {_SALT_BYTES_MAX} bytes"
    return None


def bad_user(user: str) -> str | None:
    """Why this cannot be the name of a user; None when it can."""
    if not user:
        return "Username must not be empty"
    if len(user.encode(errors="surrogatepass")) > USER_BYTES_MAX:
        return f"Username must not have more than {USER_BYTES_MAX} bytes"
    return None if user.isprintable() else "Username must have printable characters only"


# ------------------------------------------------------------------------------------------------- the server's end


class Credentials(Protocol):
    """Finds a credential, also that of an unknown user or token (`ScramCredential.unknown`)."""

    def __call__(self, mechanism: Mechanism, user: str, *, is_token: bool) -> ScramCredential:
        """The credential for this mechanism of a user, or of a delegation token by its id. Raises LoginRefused."""


class ScramServer:
    """The server's end of one exchange: `first`, then `final`. Any error ends it (Kafka's ScramSaslServer)."""

    def __init__(self, mechanism: Mechanism, credentials: Credentials, nonce: bytes) -> None:
        """`nonce` is random, and new for each exchange."""
        self.mechanism, self._credentials = mechanism, credentials
        self._nonce = base64.b64encode(nonce).decode()
        self._channel_binding = self._auth_message = ""
        self._credential: ScramCredential | None = None
        self.user = ""
        """The name that the client gave; proven after `final`."""
        self.is_token = False
        """Whether the name is the id of a delegation token (KIP-48)."""

    @property
    def has_begun(self) -> bool:
        """Whether the client's first message was answered, so that its final one follows."""
        return self._credential is not None

    def first(self, raw: bytes) -> bytes:
        """Answer the client's first message. Raises LoginRefused."""
        flag, authorization_id, bare = _parts(_text(raw), 3)
        if flag not in _GS2_HEADERS or (authorization_id and not authorization_id.startswith("a=")):
            raise LoginRefused("Invalid SCRAM message format: the first message has a wrong header")
        name, *rest = bare.split(",")
        nonce, *extensions = rest or [""]
        self.user = _user_of(_attribute(name, "n"))
        client_nonce = _attribute(nonce, "r")
        if not _PRINTABLE.fullmatch(client_nonce):
            raise LoginRefused("Invalid SCRAM message format: the nonce is not printable")
        self.is_token = f"{TOKEN_AUTH}=true" in [extension.lower() for extension in extensions]
        if authorization_id and _user_of(authorization_id[2:]) != self.user:
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username",
                is_public=True,
            )
        self._nonce = client_nonce + self._nonce
        self._channel_binding = _base64(f"{flag},{authorization_id},".encode())
        self._credential = credential = self._credentials(self.mechanism, self.user, is_token=self.is_token)
        answer = f"r={self._nonce},s={_base64(credential.salt)},i={credential.iterations}"
        self._auth_message = f"{bare},{answer}"
        return answer.encode()

    def final(self, raw: bytes) -> bytes:
        """Verify the client's proof; the answer proves that the server knows the user. Raises LoginRefused."""
        credential, mechanism = self._credential, self.mechanism
        assert credential is not None, "`first` comes before"
        without_proof, _, proof_text = _text(raw).rpartition(",p=")
        binding, *rest = without_proof.split(",")
        if _attribute(binding, "c") != self._channel_binding:
            raise LoginRefused("Invalid SCRAM message format: the final message has a wrong channel binding")
        if not hmac.compare_digest(_attribute((rest or [""])[0], "r").encode(), self._nonce.encode()):
            raise LoginRefused("Invalid client nonce in the final client message.")
        try:
            proof = _bytes(proof_text)
        except ValueError:
            raise LoginRefused("Invalid SCRAM message format: the proof is not base64") from None
        auth_message = f"{self._auth_message},{without_proof}".encode()
        signature = mechanism.sign(credential.stored_key, auth_message)
        if len(proof) != len(signature) or not hmac.compare_digest(
            mechanism.hash(_xor(proof, signature)), credential.stored_key
        ):
            raise LoginRefused("Invalid client credentials")
        return f"v={_base64(mechanism.sign(credential.server_key, auth_message))}".encode()


# ------------------------------------------------------------------------------------------------- the client's end


class ScramClient:
    """The client's end of one exchange: `first`, `final`, then `check`."""

    def __init__(self, mechanism: Mechanism, user: str, password: str, nonce: bytes, *, is_token: bool = False) -> None:
        """`nonce` is random, and new for each exchange. `is_token`: the user is the id of a delegation token."""
        self._mechanism, self._password = mechanism, password
        self._nonce = base64.b64encode(nonce).decode()
        self._bare = f"n={_saslname(user)},r={self._nonce}" + f",{TOKEN_AUTH}=true" * is_token
        self._server_signature = b""

    def first(self) -> bytes:
        """The first message."""
        return f"n,,{self._bare}".encode()

    def final(self, raw: bytes) -> bytes:
        """The final message, after the server's first. Raises LoginRefused."""
        mechanism, server_first = self._mechanism, _text(raw)
        nonce, salt_text, iterations_text = (
            _attribute(part, name) for part, name in zip(_parts(server_first, 3), "rsi", strict=True)
        )
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise LoginRefused("the server's nonce does not extend the client's")
        try:
            salt = _bytes(salt_text)
        except ValueError:
            raise LoginRefused("the server's salt is not base64") from None
        # a server that requests more would make this client compute for minutes
        if not _NUMBER.fullmatch(iterations_text) or not ITERATIONS_MIN <= int(iterations_text) <= 64 * ITERATIONS_MAX:
            raise LoginRefused(f"the server asks for {iterations_text} iterations")
        salted = mechanism.salt_password(self._password, salt, int(iterations_text))
        credential = mechanism.credential(salted, salt, int(iterations_text))
        without_proof = f"c={_base64(b'n,,')},r={nonce}"
        auth_message = f"{self._bare},{server_first},{without_proof}".encode()
        self._server_signature = mechanism.sign(credential.server_key, auth_message)
        signature = mechanism.sign(credential.stored_key, auth_message)
        proof = _xor(mechanism.sign(salted, b"Client Key"), signature)
        return f"{without_proof},p={_base64(proof)}".encode()

    def check(self, raw: bytes) -> None:
        """Verify the server's final message. Raises LoginRefused when the server does not know the user."""
        if not hmac.compare_digest(raw, b"v=" + _base64(self._server_signature).encode()):
            raise LoginRefused("the server does not know this user's credential")


# ---------------------------------------------------------------------------------------------------------- messages


def _text(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise LoginRefused("Invalid SCRAM message format: it is not UTF-8") from None
    if "\0" in text:
        raise LoginRefused("Invalid SCRAM message format: it contains a zero byte")
    return text


def _parts(text: str, count: int) -> list[str]:
    """The first parts between commas; the last one is all the rest. Raises LoginRefused."""
    parts = text.split(",", count - 1)
    if len(parts) != count:
        raise LoginRefused("Invalid SCRAM message format: an attribute is missing")
    return parts


def _attribute(part: str, name: str) -> str:
    if not part.startswith(f"{name}="):
        raise LoginRefused(f"Invalid SCRAM message format: attribute {name} is missing")
    return part[2:]


def _saslname(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")


def _user_of(saslname: str) -> str:
    """The user of an escaped name. Raises LoginRefused (Kafka's ScramFormatter.username)."""
    user = saslname.replace("=2C", ",").replace("=3D", "=")
    if not user or _saslname(user) != saslname:
        raise LoginRefused("Invalid SCRAM message format: the user name is empty or wrongly escaped")
    return user


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes(text: str) -> bytes:
    """Raises ValueError."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
