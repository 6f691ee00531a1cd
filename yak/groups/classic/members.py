"""The members of a classic group with their pending requests, and counters over them.

A rebalance of ten thousand members is ten thousand joins, so no join may scan every member. The protocols that members
support, the pending joins and the size of the metadata are counted as members join, change and leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from yak.ids import TopicPartition
from yak.limits import GROUP_PENDING_MEMBERS_MAX
from yak.protocol.record_fields import FieldReader, UnreadableRecord

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""A member's protocols (assignment strategies) in order of preference, each with its metadata (a subscription)."""


_PROTOCOL_BYTES: Final = 150
"""Memory of a protocol without a name and metadata: three objects."""


class Ticket(Protocol):
    """A pending JoinGroup or SyncGroup."""

    def reply(self, fields: dict[str, Any]) -> None:
        """Send the response, once."""


@dataclass(slots=True, eq=False)
class Member:
    """A member. `instance_id` is set for a static member (KIP-345), else None."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    joining: Ticket | None = None
    """Its JoinGroup, while it waits for the other members."""
    syncing: Ticket | None = None
    """Its SyncGroup, while it waits for the leader's assignment."""
    is_new: bool = False
    """Whether its first JoinGroup is still unanswered."""
    knows_id: bool = True
    """Whether a response has given the client this member id."""
    deadline_ms: int = 0
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


class Roster:
    """The members of a group, in the order in which they joined."""

    __slots__ = (
        "_holders",
        "_static",
        "_supporters",
        "joining_count",
        "leader_id",
        "members",
        "metadata_bytes",
        "pending",
    )

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.leader_id: str | None = None
        self.pending: dict[str, int] = {}
        """Member ids that were handed out and have not joined yet, each with its expiry time."""
        self.joining_count = 0
        """The number of members with a pending JoinGroup."""
        self.metadata_bytes = 0
        """The size of all members' metadata."""
        self._static: dict[str, str] = {}
        """Member id by instance id."""
        self._supporters: Counter[str] = Counter()
        """How many members support each protocol."""
        self._holders: dict[Ticket, Member] = {}
        """The member of each pending request."""

    # ------------------------------------------------------------------------------------------------ members

    def static_member(self, instance_id: str) -> Member | None:
        """The member with this instance id."""
        member_id = self._static.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def add(self, member: Member) -> None:
        """Add a member; the first member becomes the leader."""
        if not self.members:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        self._count(member, 1)
        self.pending.pop(member.member_id, None)

    def discard(self, member: Member) -> None:
        """Remove a member without pending requests; the oldest remaining member replaces a removed leader."""
        assert member.joining is None
        assert member.syncing is None
        del self.members[member.member_id]
        if member.instance_id is not None and self._static.get(member.instance_id) == member.member_id:
            del self._static[member.instance_id]
        self._count(member, -1)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def rename(self, member: Member, member_id: str) -> None:
        """Change the member id of a static member."""
        assert member.instance_id is not None
        del self.members[member.member_id]
        if self.leader_id == member.member_id:
            self.leader_id = member_id
        member.member_id = member_id
        self.members[member_id] = member
        self._static[member.instance_id] = member_id

    def expect(self, member_id: str, until_ms: int) -> None:
        """Remember a handed-out id; above the limit the oldest one is dropped."""
        if len(self.pending) >= GROUP_PENDING_MEMBERS_MAX:
            del self.pending[next(iter(self.pending))]
        self.pending[member_id] = until_ms

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # ------------------------------------------------------------------------------------------------ protocols

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        """Replace a member's protocols and their metadata."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def _count(self, member: Member, sign: int) -> None:
        self.metadata_bytes += sign * bytes_of(member.protocols)
        for name in dict.fromkeys(name for name, _metadata in member.protocols):
            self._supporters[name] += sign
            if not self._supporters[name]:
                del self._supporters[name]

    def common_protocols(self) -> frozenset[str]:
        """The protocols that every member supports."""
        return frozenset(name for name, count in self._supporters.items() if count == len(self.members))

    def supports_one_of(self, protocols: Protocols) -> bool:
        """Whether every member supports one of these protocols."""
        return any(self._supporters[name] == len(self.members) for name, _metadata in protocols)

    def select_protocol(self) -> str:
        """The common protocol with the most votes; each member votes for its preferred one."""
        candidates = self.common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return min(votes, key=lambda name: (-votes[name], name))

    # -------------------------------------------------------------------------------------------- pending requests

    @property
    def have_all_joined(self) -> bool:
        """Whether every member has joined and no handed-out id is outstanding."""
        return not self.pending and self.joining_count == len(self.members)

    def holder_of(self, ticket: Ticket) -> Member | None:
        """The member of this request, while the request is pending."""
        return self._holders.get(ticket)

    def hold_join(self, member: Member, ticket: Ticket) -> None:
        """Register a member's pending JoinGroup."""
        assert member.joining is None
        member.joining = ticket
        self.joining_count += 1
        self._holders[ticket] = member

    def hold_sync(self, member: Member, ticket: Ticket) -> None:
        """Register a member's pending SyncGroup."""
        assert member.syncing is None
        member.syncing = ticket
        self._holders[ticket] = member

    def take_join(self, member: Member) -> Ticket | None:
        """Remove and return a member's pending JoinGroup."""
        ticket, member.joining = member.joining, None
        if ticket is not None:
            self.joining_count -= 1
            del self._holders[ticket]
        return ticket

    def take_sync(self, member: Member) -> Ticket | None:
        """Remove and return a member's pending SyncGroup."""
        ticket, member.syncing = member.syncing, None
        if ticket is not None:
            del self._holders[ticket]
        return ticket

    def answer_join(self, member: Member, fields: dict[str, Any]) -> None:
        """Answer a member's pending JoinGroup, if there is one."""
        ticket = self.take_join(member)
        if ticket is not None:
            ticket.reply(fields)

    def answer_sync(self, member: Member, fields: dict[str, Any]) -> bool:
        """Answer a member's pending SyncGroup. Returns whether there was one."""
        ticket = self.take_sync(member)
        if ticket is None:
            return False
        ticket.reply(fields)
        return True


def listed_for_leader(members: Iterable[Member], protocol: str | None) -> list[dict[str, Any]]:
    """The members in the JoinGroup response to the leader."""
    return [
        {
            "member_id": member.member_id,
            "group_instance_id": member.instance_id,
            "metadata": member.metadata_of(protocol),
        }
        for member in members
    ]


def bytes_of(protocols: Protocols) -> int:
    """The memory of a member's protocols with their metadata."""
    return sum(_PROTOCOL_BYTES + len(name) + len(metadata) for name, metadata in protocols)


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics in these subscriptions of consumers; None when one is unreadable, since members choose the format.

    Every version of ConsumerProtocolSubscription begins with a version number and an array of topic names.
    """
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            reader = FieldReader(subscription)
            reader.int16()
            topics.update(reader.array(reader.text))
    except UnreadableRecord:
        return None
    return frozenset(topics)


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...] | None:
    """The partitions of a ConsumerProtocolAssignment, in order; None when it is unreadable."""
    if not assignment:
        return ()
    try:
        reader = FieldReader(assignment)
        reader.int16()
        topics = reader.array(lambda: (reader.text(), reader.array(reader.int32)))
    except UnreadableRecord:
        return None
    return tuple(sorted(TopicPartition(topic, number) for topic, numbers in topics for number in numbers))
