"""OAUTHBEARER's messages (RFC 7628): a client's token with its extensions, and the server's error.

The grammar is that of Kafka's OAuthBearerClientInitialResponse, with two differences: bytes that are no UTF-8 and a second
`auth` are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from yak.errors import LoginRefused

OAUTHBEARER: Final = "OAUTHBEARER"
INVALID_TOKEN: Final = "invalid_token"  # noqa: S105 - RFC 6750's name of an error
ERROR_SEEN: Final = b"\x01"
"""A client's answer to an error, which ends the exchange."""
_SEPARATOR: Final = "\x01"
_HEADER: Final = re.compile(r"n,(?:a=((?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,")
_PAIR: Final = re.compile(r"([A-Za-z]+)=([\x21-\x7e \t\r\n]+)")
_BEARER: Final = re.compile(r"bearer +([-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)
_AUTH: Final = "auth"
_WRONG: Final = "Invalid OAUTHBEARER client first message"


@dataclass(frozen=True, slots=True)
class TokenMessage:
    """A client's first message. Its `repr` hides the token."""

    token: str = field(repr=False)
    authorization_id: str = ""
    """The principal that the client requests; empty: that of the token."""
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    """KIP-342's extensions, which YAK checks and does not use."""

    @classmethod
    def decode(cls, raw: bytes) -> TokenMessage:
        """Decode `n,[a=principal],^Aauth=Bearer token^A[name=value^A...]^A`. Raises LoginRefused."""
        try:
            header, *pairs = raw.decode().split(_SEPARATOR)
        except UnicodeDecodeError:
            raise LoginRefused(f"{_WRONG}: it is not UTF-8") from None
        found = _HEADER.fullmatch(header)
        if found is None or pairs[-2:] != ["", ""]:
            raise LoginRefused(_WRONG)
        extensions: dict[str, str] = {}
        for pair in pairs[:-2]:
            name_and_value = _PAIR.fullmatch(pair)
            if name_and_value is None or name_and_value[1] in extensions:
                raise LoginRefused(f"{_WRONG}: an extension is malformed, or its name comes twice")
            extensions[name_and_value[1]] = name_and_value[2]
        auth = extensions.pop(_AUTH, None)
        if auth is None:
            raise LoginRefused(f"{_WRONG}: 'auth' not specified")
        bearer = _BEARER.fullmatch(auth)
        if bearer is None:
            raise LoginRefused(f"{_WRONG}: invalid 'auth' format")
        authorization_id = (found[1] or "").replace("=2C", ",").replace("=3D", "=")
        return cls(bearer[1], authorization_id, extensions)

    def encode(self) -> bytes:
        """The bytes that a client sends."""
        name = self.authorization_id.replace("=", "=3D").replace(",", "=2C")
        pairs = {_AUTH: f"Bearer {self.token}", **self.extensions}
        body = "".join(f"{key}={value}{_SEPARATOR}" for key, value in pairs.items())
        return f"n,{f'a={name}' if name else ''},{_SEPARATOR}{body}{_SEPARATOR}".encode()


def encode_error(status: str) -> bytes:
    """The server's answer to a token that it refuses, as JSON (RFC 7628, section 3.2.2)."""
    return json.dumps({"status": status}, separators=(",", ":")).encode()


def status_of(raw: bytes) -> str:
    """The status of a server's error; the raw text if it is no such JSON."""
    text = raw.decode(errors="replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return str(found.get("status", text)) if isinstance(found, dict) else text
