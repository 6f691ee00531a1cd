"""PLAIN (RFC 4616): the user's name and password in one message, so only for encrypted connections.

The rules and the texts are those of Kafka's PlainSaslServer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from yak.errors import LoginRefused

PLAIN: Final = "PLAIN"
_TOKENS: Final = 3


@dataclass(frozen=True, slots=True)
class PlainToken:
    """A user and its password. Its `repr` hides the password."""

    user: str
    password: str = field(repr=False)

    @classmethod
    def decode(cls, raw: bytes) -> PlainToken:
        """Decode `authzid NUL user NUL password`. Raises LoginRefused."""
        try:
            tokens = raw.decode().split("\0")
        except UnicodeDecodeError:
            raise LoginRefused("Invalid SASL/PLAIN response: it is not UTF-8", is_public=True) from None
        if len(tokens) != _TOKENS:
            raise LoginRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}", is_public=True)
        authorization_id, user, password = tokens
        if not user:
            raise LoginRefused("Authentication failed: username not specified", is_public=True)
        if not password:
            raise LoginRefused("Authentication failed: password not specified", is_public=True)
        if authorization_id not in ("", user):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username",
                is_public=True,
            )
        return cls(user, password)

    def encode(self) -> bytes:
        """The bytes that a client sends."""
        return f"\0{self.user}\0{self.password}".encode()
