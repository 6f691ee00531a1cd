"""A member's connection to its coordinator: found, opened, and found again after a move."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from yak.sim.group_wire import FIND_COORDINATOR, VERSIONS
from yak.sim.request_fields import Fields
from yak.sim.routing import Connection, Done, View
from yak.sim.seeded_random import SeededRandom

MOVED = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available})


class CoordinatorLink:
    """One connection to the current coordinator of a group."""

    def __init__(self, view: View, rng: SeededRandom, group: str) -> None:
        self._cluster = view.cluster
        self._rng = rng
        self._group = group
        self._connection: Connection | None = None
        self._finder: Connection | None = None

    @property
    def node_id(self) -> int:
        """The broker that it is connected to; -1 if none."""
        return -1 if self._connection is None else self._connection.node_id

    def send(self, api_key: int, fields: Fields, done: Done, version: int | None = None) -> None:
        """Send one request; `done` gets the response body, or None without a coordinator or a response."""
        connection = self._connection
        spoken = VERSIONS[api_key] if version is None else version
        if connection is not None and connection.is_open:
            connection.send(api_key, spoken, fields, done)
            return

        def found(answer: Any | None) -> None:
            self.close()
            if answer is None or answer.error_code != ErrorCode.none:
                done(None)
                return
            self._connection = Connection(self._cluster, answer.node_id)
            self._connection.send(api_key, spoken, fields, done)

        if self._finder is not None:
            self._finder.close()
        finder = self._finder = Connection(self._cluster, self._rng.choice(self._cluster.nodes).node_id)
        finder.send(FIND_COORDINATOR, VERSIONS[FIND_COORDINATOR], {"key": self._group, "key_type": 0}, found)

    def heard(self, code: ErrorCode) -> None:
        """Handle a response's error code: it may mean that the coordinator has moved."""
        if code in MOVED:
            self.close()

    def close(self) -> None:
        """Close the connections; their pending requests get no response."""
        for connection in (self._connection, self._finder):
            if connection is not None:
                connection.close()
        self._connection = self._finder = None
