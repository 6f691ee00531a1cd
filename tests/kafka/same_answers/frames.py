"""Frames that no client sends: unknown tagged fields, versions and keys, cut, prolonged and altered bytes.

Each has a connection of its own. Compared is whether the broker answers, and what. Not tried is what YAK refuses, and Kafka
reads leniently: booleans other than 0 and 1, and negative lengths other than -1.
"""

from __future__ import annotations

import random
import struct
from typing import Any, Final

from kio.serial.errors import SerialError

from tests.integration.support.raw import Closed, RawClient
from tests.kafka.same_answers.engine import Scenario, Side, filled, plain
from yak.sim.wire import encoded, read_answer, request_class

_KEYS: Final = {
    2: (1, 11),
    3: (0, 13),
    8: (2, 9),
    9: (1, 9),
    10: (0, 6),
    12: (0, 4),
    13: (0, 5),
    15: (0, 6),
    18: (0, 4),
    20: (1, 6),
    21: (0, 2),
    23: (2, 4),
    25: (0, 4),
    26: (0, 5),
    32: (1, 4),
    35: (1, 4),
    37: (0, 3),
    42: (0, 2),
    44: (0, 1),
    46: (0, 0),
    48: (0, 1),
    50: (0, 0),
    57: (0, 2),
    60: (0, 2),
    61: (0, 0),
    65: (0, 0),
    66: (0, 2),
    69: (0, 1),
    75: (0, 0),
}
"""APIs whose empty requests change nothing, and their versions."""
_LISTS: Final = (3, 18, 35, 48, 50, 66, 75)
"""APIs that answer an empty request with all there is, also of other runs."""
_HIDDEN: Final = ("host", "rack", "api_keys", "supported_features", "finalized_features", "finalized_features_epoch")


def frames(side: Side, rng: random.Random) -> None:
    """Frames of each API, most of them odd in one way."""
    side.hidden = frozenset([*_HIDDEN, "log_dir", "total_bytes", "usable_bytes", "controller_id", "error_message"])
    for _ in range(150):
        key = rng.choice(list(_KEYS))
        version = rng.randint(*_KEYS[key])
        cls = request_class(key, version)
        body = bytearray(
            encoded(filled(cls, {"timeout": 100, "client_software_name": "c", "client_software_version": "1"}))
        )
        client, correlation, tags = rng.choice([b"c", b"c", None, b"", "é".encode(), b"\xff"]), 7, b"\0"
        kind = rng.choice(["right", "tag", "headertag", "cut", "more", "byte", "byte", "version", "key", "correlation"])
        sent = key, version
        if kind == "tag" and cls.__flexible__:
            body[-1:] = rng.choice(
                [b"\x01\x63\x02ab", b"\x02\x63\x01a\x64\x00", b"\x01\x63\x05ab", b"\x02\x63\x00\x64\x00"]
            )
        elif kind == "headertag":
            tags = rng.choice([b"\x01\x05\x02ab", b"\x01\x05\x7fab", b"\x02\x05\x00\x06\x00"])
        elif kind == "cut" and body:
            del body[-rng.randint(1, len(body)) :]
        elif kind == "more":
            body += bytes(rng.randint(1, 4))
        elif kind == "byte" and (places := [at for at, byte in enumerate(body) if byte != 0xFF]):
            at = rng.choice(places)
            body[at] = rng.choice([0, 1])
        elif kind == "version":
            sent = key, rng.choice([-1, 99, 32767, _KEYS[key][1] + 5])
        elif kind == "key":
            sent = rng.choice([-1, 4, 5, 6, 7, 56, 62, 63, 67, 70, 99, 32767]), 0
        elif kind == "correlation":
            correlation = rng.choice([-1, 0, 2**31 - 1])
        head = struct.pack(">hhi", *sent, correlation)
        head += struct.pack(">h", -1) if client is None else struct.pack(">h", len(client)) + client
        frame = bytes(head + (tags if cls.__flexible__ else b"") + body)
        note = f"{key} v{version} {kind} as {sent} {bytes(body)!r} {tags!r} {client!r} {correlation}"
        side.record(note, [_exchange(side, frame, key, version)])


def _exchange(side: Side, frame: bytes, key: int, version: int) -> Any:
    raw = RawClient(side.port)
    raw.sock.settimeout(6)
    try:
        raw.send_frame(frame)
        got = raw.receive_frame()
        try:
            correlation, answer = read_answer(key, version, got)
        except (SerialError, AssertionError, ValueError):
            return {"bytes": len(got) if key != 18 else "", "of": got[4:10].hex()}
        return {"correlation": correlation, "answer": "a list" if key in _LISTS else plain(answer)}
    except (Closed, ConnectionResetError):
        return "closed"
    except TimeoutError:
        return "no answer"
    finally:
        raw.sock.close()


SCENARIOS: Final[tuple[Scenario, ...]] = (frames,)
