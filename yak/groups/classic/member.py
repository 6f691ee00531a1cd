"""A member of a classic group, and the requests of its that wait."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""The assignment strategies that a member knows, the one it likes best first, each with its metadata (a subscription)."""


class Ticket(Protocol):
    """A JoinGroup or SyncGroup that waits for its answer."""

    def reply(self, fields: dict[str, Any]) -> None:
        """Answer it, once."""


class Member:
    """A member. `instance_id` is that of a static member (KIP-345), else None."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline_ms",
        "instance_id",
        "is_new",
        "joining",
        "knows_id",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.joining: Ticket | None = None
        """Its JoinGroup, while it waits for the others."""
        self.syncing: Ticket | None = None
        """Its SyncGroup, while it waits for the leader's assignment."""
        self.is_new = False
        """Whether its first join was not answered yet."""
        self.knows_id = True
        """Whether its client was told its id."""
        self.deadline_ms = 0
        """When it is given up unless it is heard of."""

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place over restarts."""
        return self.instance_id is not None

    def metadata_of(self, protocol: str | None) -> bytes:
        """What it says about itself under a strategy; empty when it does not know that one."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The strategy of these that it likes best."""
        return next(name for name, _metadata in self.protocols if name in candidates)
