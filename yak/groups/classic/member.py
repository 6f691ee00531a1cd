"""A member of a classic group, with its pending requests."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""A member's protocols (assignment strategies) in order of preference, each with its metadata (a subscription)."""


class Ticket(Protocol):
    """A pending JoinGroup or SyncGroup."""

    def reply(self, fields: dict[str, Any]) -> None:
        """Send the response, once."""


class Member:
    """A member. `instance_id` is set for a static member (KIP-345), else None."""

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
        """Its JoinGroup, while it waits for the other members."""
        self.syncing: Ticket | None = None
        """Its SyncGroup, while it waits for the leader's assignment."""
        self.is_new = False
        """Whether its first JoinGroup is still unanswered."""
        self.knows_id = True
        """Whether a response has told the client this member id."""
        self.deadline_ms = 0
        """When its session expires."""

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place across restarts."""
        return self.instance_id is not None

    def metadata_of(self, protocol: str | None) -> bytes:
        """Its metadata under a protocol; empty when it does not support that protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The candidate that this member prefers."""
        return next(name for name, _metadata in self.protocols if name in candidates)
