"""Room for other brokers where clients have taken all connections: a flood of clients must not end replication.

Brokers come in by the same port as clients, so a connection over a bound gets in on trial. Until it has proven to be
another broker's (`yak.protocol.peer_proof`), only the requests of that proof are stepped; any other request, or no proof in
time, closes it. Trials have a bound of their own, and the newest takes the place of the oldest: so connections that prove
nothing keep no broker out.
"""

import struct
from typing import TYPE_CHECKING, Final

from yak.protocol.versions import SASL_AUTHENTICATE, SASL_HANDSHAKE

if TYPE_CHECKING:
    from yak.server.connection import Connection
    from yak.server.shell import Shell

_API_KEY: Final = struct.Struct(">h")
_OF_THE_PROOF: Final = (SASL_HANDSHAKE, SASL_AUTHENTICATE)


class PeerReserve:
    """Connections over the bounds: those on trial, with what they are over, and those that are proven to be brokers'."""

    def __init__(self, shell: "Shell") -> None:
        self._shell = shell
        self._on_trial: dict[Connection, str] = {}
        self._kept: set[Connection] = set()

    def has_room(self) -> bool:
        """Whether one more may come in on trial; ends the oldest one on trial if that is what it takes."""
        limits = self._shell.limits
        if len(self._kept) >= limits.peers_reserved:
            return False
        if len(self._on_trial) >= limits.peers_proving_max:
            self.expire(next(iter(self._on_trial)))
        return True

    def admit(self, connection: "Connection", kind: str) -> None:
        """This one is on trial from now on."""
        self._on_trial[connection] = kind
        connection.trial = self

    def admits(self, connection: "Connection", frame: bytes | memoryview) -> bool:
        """Whether a request of one on trial is of its proof; else the connection is closed. At least 8 bytes long."""
        if _API_KEY.unpack_from(frame)[0] in _OF_THE_PROOF:
            return True
        self._end(connection)
        return False

    def keep(self, connection: "Connection") -> None:
        """It is proven to be a broker's: it stays, if there is room."""
        if len(self._kept) >= self._shell.limits.peers_reserved:
            self._end(connection)
            return
        connection.trial = None
        self._on_trial.pop(connection, None)
        self._kept.add(connection)

    def expire(self, connection: "Connection") -> None:
        """End one that proved nothing in its time; not to be called within its own turn."""
        if connection in self._on_trial:
            self._end(connection)
            connection.flush()

    def _end(self, connection: "Connection") -> None:
        kind = self._on_trial.pop(connection)
        connection.trial = None
        self.refused(connection.peer, kind)
        connection.close(kind, now=True)

    def refused(self, peer: str, kind: str) -> None:
        """Count one that was sent away, and say so."""
        self._shell.counters.bad(kind)
        self._shell.rate_limit.write("warning", "connection-refused", {"peer": peer, "kind": kind})

    def forget(self, connection: "Connection") -> None:
        """It ended."""
        self._on_trial.pop(connection, None)
        self._kept.discard(connection)
