"""Room for other brokers where clients have taken all connections: their flood must not end replication.

Brokers come in by the same port as clients, so whoever is over a bound gets in on trial, if there is room. The first
request has to be one that only a broker makes; else, or if none comes soon, the connection is closed. When the room is
full, the newest takes the place of the oldest that proved nothing yet. That keeps accidents away, not an attacker, who
could say that he is a broker; Kafka gives brokers a listener of their own for that (KIP-402).
"""

import struct
from typing import TYPE_CHECKING, Final

from yak.broker.pulse import WATCH_CLIENT_ID
from yak.broker.replica_serving import CLIENT_ID_PREFIX

if TYPE_CHECKING:
    from yak.server.connection import Connection
    from yak.server.shell import Shell

_CLIENT_ID_AT: Final = 8
"""Behind API key, version and correlation id, in every request header that has a client id."""
_MARKS: Final = (WATCH_CLIENT_ID, CLIENT_ID_PREFIX.encode())


def is_from_broker(frame: bytes | memoryview) -> bool:
    """Whether a request, without its length, bears a broker's client id."""
    start = _CLIENT_ID_AT + 2
    if len(frame) < start:
        return False
    (length,) = struct.unpack_from(">h", frame, _CLIENT_ID_AT)
    return length > 0 and bytes(frame[start : start + length]).startswith(_MARKS)


class PeerReserve:
    """Connections over the bounds: those on trial, with what they are over, and those that proved to be brokers."""

    def __init__(self, shell: "Shell") -> None:
        self._shell = shell
        self._on_trial: dict[Connection, str] = {}
        self._kept: set[Connection] = set()

    def has_room(self) -> bool:
        """Whether one more may come in; ends the oldest one on trial if that is what it takes."""
        if len(self._on_trial) + len(self._kept) < self._shell.limits.peers_reserved:
            return True
        if not self._on_trial:
            return False
        self.expire(next(iter(self._on_trial)))
        return True

    def admit(self, connection: "Connection", kind: str) -> None:
        """This one is on trial from now on."""
        self._on_trial[connection] = kind
        connection.trial = self

    def judge(self, connection: "Connection", frame: bytes | memoryview) -> None:
        """Its first request: keep it, or close it."""
        connection.trial = None
        kind = self._on_trial.pop(connection)
        if is_from_broker(frame):
            self._kept.add(connection)
        else:
            self.refused(connection.peer, kind)
            connection.close(kind, now=True)

    def expire(self, connection: "Connection") -> None:
        """End one that proved nothing in its time; not to be called within its own turn."""
        kind = self._on_trial.pop(connection, None)
        if kind is not None:
            self.refused(connection.peer, kind)
            connection.close(kind, now=True)
            connection.flush()

    def refused(self, peer: str, kind: str) -> None:
        """Count one that was sent away, and say so."""
        self._shell.counters.bad(kind)
        self._shell.rate_limit.write("warning", "connection-refused", {"peer": peer, "kind": kind})

    def forget(self, connection: "Connection") -> None:
        """It ended."""
        self._on_trial.pop(connection, None)
        self._kept.discard(connection)
