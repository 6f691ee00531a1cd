"""The login of this process's connections to brokers: librdkafka's and its own (`RawConnection`).

A process talks to one cluster, so it has one login: `use_login` sets it when the settings are known. Settings that a
caller gives to a librdkafka handle take precedence.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from yak.errors import LoginRefused, Unreachable, UsageError

PLAINTEXT, SASL_PLAINTEXT = "PLAINTEXT", "SASL_PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, SASL_PLAINTEXT)
CLIENT_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
Ask = Callable[[Any], Any]
"""Sends one of kio's requests and returns its response. Raises OSError."""


@dataclass(frozen=True, slots=True)
class ClientLogin:
    """A user's login. Its `repr` hides the password."""

    mechanism: str
    user: str
    password: str = field(repr=False)

    def librdkafka(self) -> dict[str, str]:
        """The login as settings of librdkafka."""
        return {
            "security.protocol": SASL_PLAINTEXT,
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.user,
            "sasl.password": self.password,
        }


class _Process:
    """The login of this process; None where brokers need none."""

    login: ClientLogin | None = None


def use_login(login: ClientLogin | None) -> None:
    """Log in with this from now on."""
    _Process.login = login


def current_login() -> ClientLogin | None:
    """The login of this process."""
    return _Process.login


def login_of(protocol: str, mechanism: str, user: str | None, password: str | None) -> ClientLogin | None:
    """The login that these settings describe; None without SASL. Raises UsageError (`login-settings`)."""
    if protocol == PLAINTEXT:
        return None
    if not user or not password:
        missing = "sasl_password" if user else "sasl_username"
        raise UsageError(
            "login-settings",
            f"security_protocol is {protocol}, and {missing} is not set",
            why="a login needs a user and a password",
            try_=(
                "export YAK_SASL_USERNAME=USER YAK_SASL_PASSWORD=...",
                "yak context add NAME --login USER -b HOST:PORT",
            ),
        )
    return ClientLogin(mechanism, user, password)


def log_in(login: ClientLogin, ask: Ask, address: str) -> None:
    """Log in on a new connection. Raises Unreachable (`login-failed`), and OSError from `ask`."""
    from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
    from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

    from yak.errors import ErrorCode
    from yak.security.plain import PlainToken
    from yak.security.scram import MECHANISMS, NONCE_BYTES, ScramClient

    def send(token: bytes) -> bytes:
        answer = ask(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code != ErrorCode.none:
            raise _failed(login, address, answer.error_message or answer.error_code.name)
        return bytes(answer.auth_bytes)

    answer = ask(SaslHandshakeRequest(mechanism=login.mechanism))
    if answer.error_code == ErrorCode.illegal_sasl_state:
        raise _failed(login, address, "the listener there has no SASL: set security_protocol to PLAINTEXT")
    if answer.error_code != ErrorCode.none:
        enabled = ", ".join(answer.mechanisms)
        raise _failed(login, address, f"{login.mechanism} is not enabled there; enabled: {enabled or 'none'}")
    if login.mechanism not in MECHANISMS:
        send(PlainToken(login.user, login.password).encode())
        return
    scram = ScramClient(MECHANISMS[login.mechanism], login.user, login.password, os.urandom(NONCE_BYTES))
    try:
        scram.check(send(scram.final(send(scram.first()))))
    except LoginRefused as refused:
        raise _failed(login, address, str(refused)) from None


def _failed(login: ClientLogin, address: str, why: str) -> Unreachable:
    return Unreachable(
        "login-failed",
        f"user {login.user} could not log in at {address}",
        why=why,
        try_=("yak config show    shows the user and where it comes from", "yak users list     as another user"),
    )
