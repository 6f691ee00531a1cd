"""Logins with SASL: handshakes, tokens and other requests in any order, right and wrong ones, with and without a header.

Known differences: YAK closes the connection at a SaslHandshake in place of a token, which Kafka refuses with
ILLEGAL_SASL_STATE before it closes; and YAK answers the first SCRAM message of an unknown user as that of a known one.
"""

from __future__ import annotations

import random
import time
from typing import Any, Final

from kio.serial.errors import SerialError
from support.raw import Closed, RawClient
from versus import brokers

from tests.kafka.same_answers.engine import Scenario, Side, filled, plain
from yak.errors import LoginRefused
from yak.security.plain import PlainToken
from yak.security.scram import MECHANISMS, ScramClient
from yak.sim.wire import read_answer, request_class, request_frame

API_VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA = 18, 17, 36, 3
USER, PASSWORD = "ann", "secret"
PORTS: Final = {"kafka": brokers.free_port(), "yak": brokers.free_port()}
_SCRAM: Final = "SCRAM-SHA-256"
_JAAS: Final = (
    "listener.name.sasl_plaintext.{}.sasl.jaas.config=org.apache.kafka.common.security.{}LoginModule required{};"
)


def prepare() -> tuple[str, ...]:
    """Give both brokers a listener for logins; returns YAK's configs."""
    first = f"listeners=SASL_PLAINTEXT://127.0.0.1:{PORTS['kafka']},PLAINTEXT"
    text = brokers.SERVER_PROPERTIES.replace("listeners=PLAINTEXT", first)
    text = text.replace("protocol.map=", "protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,")
    lines = (
        f"sasl.enabled.mechanisms=PLAIN,{_SCRAM}",
        _JAAS.format("plain", "plain.Plain", f' user_{USER}="{PASSWORD}"'),
        _JAAS.format(_SCRAM.lower(), "scram.Scram", ""),
    )
    brokers.SERVER_PROPERTIES = text + "\n".join(lines) + "\n"
    plain_port = brokers.free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{plain_port},SASL_PLAINTEXT://127.0.0.1:{PORTS['yak']}"
    return f"listeners={listeners}", "inter.broker.listener.name=PLAINTEXT", lines[0]


class Login:
    """One connection, and what its client knows."""

    def __init__(self, side: Side, rng: random.Random) -> None:
        self.side, self.rng = side, rng
        self.raw = RawClient(PORTS[side.name])
        self.raw.sock.settimeout(3)
        self.mechanism, self.is_bare = "", False
        self.scram: ScramClient | None = None
        self.last = b""
        self.is_open = True

    def ask(self, key: int, version: int, **fields: Any) -> Any:
        """The answer; "bytes" for one that is no answer to such a request, as to a bare token."""
        known = min(version, 4)  # of ApiVersions any version is asked, and v0 answers an unknown one
        cls = request_class(key, known if key == API_VERSIONS else version)
        frame = bytearray(request_frame(key, version, 1, filled(cls, fields)))

        def read(got: bytes) -> Any:
            try:
                return plain(read_answer(key, 0 if key == API_VERSIONS and version > known else version, got)[1])
            except (SerialError, AssertionError):
                return "bytes"

        return self._exchange(bytes(frame), read)

    def bare(self, token: bytes) -> Any:
        return self._exchange(token, lambda got: {"auth_bytes": bytes(got[4:])})

    def _exchange(self, frame: bytes, read: Any) -> Any:
        try:
            self.raw.send_frame(frame)
            return read(self.raw.receive_frame())
        except (Closed, ConnectionResetError):
            self.is_open = False
            return "closed"
        except TimeoutError:
            self.is_open = False
            return "no answer"

    def token(self) -> bytes:
        """A token, usually the next one of the mechanism."""
        kind = self.rng.choice(["right", "right", "right", "wrong", "unknown", "empty", "odd", "long"])
        if kind in ("empty", "odd", "long"):
            return {"empty": b"", "odd": b"\0\0\0\0", "long": b"x" * 70_000}[kind]
        user, password = ("nobody" if kind == "unknown" else USER), ("wrong" if kind == "wrong" else PASSWORD)
        if self.mechanism != _SCRAM:
            return PlainToken(user, password).encode()
        if self.scram is None:
            self.scram = ScramClient(MECHANISMS[_SCRAM], user, password, b"nonce of the client")
            return self.scram.first()
        try:
            return self.scram.final(self.last)
        except LoginRefused:
            return b"c=biws,r=x,p=x"


def logins(side: Side, rng: random.Random) -> None:
    """Several connections, each with some requests."""
    mechanism = MECHANISMS[_SCRAM]
    salted = mechanism.salt_password(PASSWORD, b"salt", 4096)
    user = {"name": USER, "mechanism": mechanism.code, "iterations": 4096, "salt": b"salt", "salted_password": salted}
    side.hidden = frozenset(["error_message"])
    side.once(51, 0, deletions=[], upsertions=[user])
    time.sleep(0.2)
    for number in range(8):
        login = Login(side, rng)
        steps = ["versions", "handshake", "token", "token", "metadata", "handshake", "token", "token", "metadata"]
        if rng.random() < 0.5:
            rng.shuffle(steps)
        for step in steps:
            if not login.is_open:
                break
            _take(side, rng, login, step, number)
        login.raw.sock.close()


def _take(side: Side, rng: random.Random, login: Login, step: str, number: int) -> None:
    if step == "versions":
        version = rng.choice([0, 3, 4, 7])
        answer = login.ask(API_VERSIONS, version, client_software_name="c", client_software_version="1")
        if isinstance(answer, dict):
            answer = answer["error_code"]
        note = f"ApiVersions v{version}"
    elif step == "handshake":
        version, name = rng.choice([0, 1, 1]), rng.choice(["PLAIN", "PLAIN", _SCRAM, _SCRAM, "GSSAPI", "", "plain"])
        answer = login.ask(HANDSHAKE, version, mechanism=name)
        if isinstance(answer, dict):
            answer["mechanisms"] = sorted(answer["mechanisms"])
            if answer["error_code"] == "none":
                login.mechanism, login.is_bare, login.scram = name, version == 0, None
        note = f"SaslHandshake v{version} {name}"
    elif step == "token":
        token = login.token()
        is_bare = login.is_bare and rng.random() < 0.9
        version = rng.randrange(3)
        answer = login.bare(token) if is_bare else login.ask(AUTHENTICATE, version, auth_bytes=token)
        if isinstance(answer, dict):
            login.last = bytes(answer["auth_bytes"] or b"")
            answer["auth_bytes"] = len(login.last) > 0
        note = f"token {login.mechanism} {is_bare} v{version} {token[:30]!r}"
    else:
        answer = login.ask(METADATA, 9, topics=[])
        if isinstance(answer, dict):
            answer = "metadata"
        note = "Metadata"
    side.record(f"{number} {note}", [answer])


SCENARIOS: Final[tuple[Scenario, ...]] = (logins,)
