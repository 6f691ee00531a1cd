"""Reserved connections for other brokers, so that a flood of clients does not stop replication.

Brokers and clients share one port, so a connection above a limit is admitted on trial. Until another
broker authenticates on it (`yak.protocol.peer_proof`), only requests of that exchange are stepped. Any other request, or
a timeout, closes it. Trials have a limit of their own, and the newest replaces the oldest, so unauthenticated connections
cannot exclude a broker.
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
    """Connections above the limits: those on trial, with the limit they exceed, and those of authenticated brokers."""

    def __init__(self, shell: "Shell") -> None:
        self._shell = shell
        self._on_trial: dict[Connection, str] = {}
        self._admitted: set[Connection] = set()

    def has_room(self) -> bool:
        """Whether one more may be admitted on trial; closes the oldest trial if needed."""
        limits = self._shell.limits
        if len(self._admitted) >= limits.peers_reserved:
            return False
        if len(self._on_trial) >= limits.peers_proving_max:
            self.expire(next(iter(self._on_trial)))
        return True

    def admit(self, connection: "Connection", kind: str) -> None:
        """Put a connection on trial."""
        self._on_trial[connection] = kind
        connection.trial = self

    def admits(self, connection: "Connection", frame: bytes | memoryview) -> bool:
        """Whether a trial's request (at least 8 bytes) is part of its proof; otherwise closes the connection."""
        if _API_KEY.unpack_from(frame)[0] in _OF_THE_PROOF:
            return True
        self._end(connection)
        return False

    def keep(self, connection: "Connection") -> None:
        """Keep the connection of an authenticated broker, if the reserve has room; otherwise close it."""
        if len(self._admitted) >= self._shell.limits.peers_reserved:
            self._end(connection)
            return
        connection.trial = None
        self._on_trial.pop(connection, None)
        self._admitted.add(connection)

    def expire(self, connection: "Connection") -> None:
        """Close a trial that timed out; not to be called within its own turn."""
        if connection in self._on_trial:
            self._end(connection)
            connection.flush()

    def _end(self, connection: "Connection") -> None:
        kind = self._on_trial.pop(connection)
        connection.trial = None
        self.refused(connection.peer, kind)
        connection.close(kind, now=True)

    def refused(self, peer: str, kind: str) -> None:
        """Count and log a refused connection."""
        self._shell.counters.bad(kind)
        self._shell.rate_limit.write("warning", "connection-refused", {"peer": peer, "kind": kind})

    def forget(self, connection: "Connection") -> None:
        """Remove a connection that ended."""
        self._on_trial.pop(connection, None)
        self._admitted.discard(connection)
