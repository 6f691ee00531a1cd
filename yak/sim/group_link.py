"""A member's way to its coordinator: asked for, connected to, and asked for anew when it is another."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from yak.sim.dice import SeededDice
from yak.sim.group_wire import FIND_COORDINATOR, VERSIONS, request
from yak.sim.routing import Connection, Done, View

MOVED = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available})


class CoordinatorLink:
    """One connection to whoever coordinates a group now."""

    def __init__(self, view: View, dice: SeededDice, group: str) -> None:
        self._cluster = view.cluster
        self._dice = dice
        self._group = group
        self._connection: Connection | None = None
        self._finder: Connection | None = None

    @property
    def node_id(self) -> int:
        """Whom it is connected to; -1 when nobody."""
        return -1 if self._connection is None else self._connection.node_id

    def send(self, api_key: int, body: Any, done: Done) -> None:
        """Send one request; `done` gets its answer's body, or None when there is no coordinator or no answer."""
        connection = self._connection
        if connection is not None and connection.is_open:
            connection.send(api_key, VERSIONS[api_key], body, done)
            return

        def found(answer: Any | None) -> None:
            self.close()
            if answer is None or answer.error_code != ErrorCode.none:
                done(None)
                return
            self._connection = Connection(self._cluster, answer.node_id)
            self._connection.send(api_key, VERSIONS[api_key], body, done)

        if self._finder is not None:
            self._finder.close()
        finder = self._finder = Connection(self._cluster, self._dice.choice(self._cluster.nodes).node_id)
        finder.send(
            FIND_COORDINATOR, VERSIONS[FIND_COORDINATOR], request(FIND_COORDINATOR, key=self._group, key_type=0), found
        )

    def heard(self, code: ErrorCode) -> None:
        """An answer had this code: it may mean that another broker is to be asked."""
        if code in MOVED:
            self.close()

    def close(self) -> None:
        """Give up the connections; what was asked on them stays unanswered."""
        for connection in (self._connection, self._finder):
            if connection is not None:
                connection.close()
        self._connection = self._finder = None
