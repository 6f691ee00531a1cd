"""A classic group: its states, what each request of a member may do in them, and the rebalance that a change starts.

Pending requests are `Ticket`s of members and are answered here. The log stores only the outcome of a rebalance. Members
that are joining are not stored; they rejoin when the coordinator moves (ClassicGroup.java, GroupMetadataManager.java).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from yak.errors import ErrorCode, PeerError
from yak.fail_stop import changes_state
from yak.groups.classic.members import (
    Member,
    Protocols,
    Roster,
    Ticket,
    bytes_of,
    listed_for_leader,
    subscribed_topics,
)
from yak.groups.classic.records import StoredGroup
from yak.limits import GROUP_METADATA_BYTES_MAX
from yak.protocol.record_fields import INT32_MAX

CONSUMER_PROTOCOL = "consumer"
NO_GENERATION = -1
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a member waits for its first JoinGroup response: it cannot heartbeat yet (Kafka's constant of this name)."""
ALL_AWAY_MS_MIN = 1_000
"""The shortest wait while all remaining members are static and away: each wait costs a scan of the members."""
MEMBERS_A_MS = 100
"""Expired sessions are searched at most once per (members / 100) ms: with ten thousand members, every 100 ms."""


class ClassicState(enum.Enum):
    """The state of a classic group; the values are the names that clients see."""

    EMPTY = "Empty"
    """No members; the group lives while it has committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The group waits for all members to rejoin."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All members have joined; the group waits for the leader's assignment."""
    STABLE = "Stable"
    DEAD = "Dead"
    """The group is removed, or coordinated elsewhere."""


MOVES: Final[Mapping[ClassicState, frozenset[ClassicState]]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}
    ),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset(),
}
"""The allowed next states of each state."""


@dataclass(slots=True, frozen=True)
class ClassicSettings:
    """Kafka's configs `group.initial.rebalance.delay.ms` and so on."""

    initial_rebalance_delay_ms: int = 500
    max_size: int = 2**31 - 1


@dataclass(slots=True, frozen=True)
class Join:
    """A JoinGroup of any version. `instance_id` is None for a dynamic member.

    `requires_known_member_id`: from v4 on, the first response to a new member only gives it an id. `skips_assignment`:
    from v9 on, the response lets the leader keep its assignment.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_known_member_id: bool = True
    skips_assignment: bool = False


@dataclass(slots=True, frozen=True)
class Sync:
    """A SyncGroup. `protocol_type` and `protocol` are None before v5; only the leader sends `assignments`."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: dict[str, bytes] = field(default_factory=dict)


class Port(Protocol):
    """The coordinator's side of a group."""

    def write(
        self, group: ClassicGroup, assignments: Mapping[str, bytes] | None, then: Callable[[ErrorCode], None]
    ) -> None:
        """Write the group's record; call `then(NONE)` when it is committed, else `then` with the error."""

    def schedule(self, group: ClassicGroup, due_ms: int) -> None:
        """Call `on_time` at `due_ms`, or sooner."""

    def new_member_id(self, prefix: str) -> str:
        """A member id that was never used before."""

    @property
    def now_ms(self) -> int:
        """The time of the current step."""

    @property
    def wall_ms(self) -> int:
        """The wall clock, for timestamps in the log."""

    def say(self, event: str, **fields: object) -> None:
        """Write a log event."""


class ClassicGroup(Roster):
    """One classic group. Every call gets `now_ms`, which never goes back."""

    __slots__ = (
        "assignments",
        "checked_ms",
        "generation",
        "group_id",
        "initial_remaining_ms",
        "is_initial",
        "join_due_ms",
        "new_member_added",
        "port",
        "protocol",
        "protocol_type",
        "settings",
        "state",
        "state_ms",
        "sync_due_ms",
        "topics",
        "unsynced",
    )

    def __init__(self, group_id: str, port: Port, settings: ClassicSettings) -> None:
        super().__init__()
        self.group_id = group_id
        self.port = port
        self.settings = settings
        self.state = ClassicState.EMPTY
        self.state_ms = port.wall_ms
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.generation = 0
        self.unsynced: dict[str, None] = {}
        """Members of this generation that have not sent SyncGroup yet."""
        self.topics: frozenset[str] | None = None
        """The topics that the members subscribe to; None when unknown."""
        self.assignments: Mapping[str, bytes] | None = None
        """The last ones that the leader has sent, in this generation."""
        self.is_initial = False
        """Whether this is the first rebalance of an empty group, which waits for more members."""
        self.initial_remaining_ms = 0
        """How much longer it may wait then."""
        self.new_member_added = False
        """Whether a member was added during the present wait, which then is repeated (Kafka's newMemberAdded)."""
        self.join_due_ms: int | None = None
        self.sync_due_ms: int | None = None
        self.checked_ms = 0
        """When `on_time` last scanned the members."""

    # ------------------------------------------------------------------------------------------------- JoinGroup

    @changes_state
    def join(self, request: Join, ticket: Ticket, now_ms: int) -> None:
        """Handle a JoinGroup: the response is sent at once, or at the end of its rebalance."""
        try:
            if not self._has_room(request.member_id):
                held = self.members.get(request.member_id)
                if held is not None:
                    self.remove(held, ErrorCode.group_max_size_reached)
                    self.try_complete_join(now_ms)
                raise PeerError(ErrorCode.group_max_size_reached)
            self._check_metadata_size(request)
            if not self._takes_protocols(request.protocol_type, request.protocols):
                raise PeerError(ErrorCode.inconsistent_group_protocol)
            if not request.member_id:
                self._join_unknown(request, ticket, now_ms)
            else:
                self._join_known(request, ticket, now_ms)
        except PeerError as refusal:
            # a full group answers without the member's id (GroupMetadataManager.classicGroupJoinToClassicGroup)
            is_full = refusal.error_code == ErrorCode.group_max_size_reached
            ticket.reply(refused_join("" if is_full else request.member_id, refusal.error_code))

    def _has_room(self, member_id: str) -> bool:
        """Whether `group.max.size` admits this member (acceptJoiningMember)."""
        limit = self.settings.max_size
        known = self.members.get(member_id)
        if self.state is ClassicState.EMPTY:
            return True
        if self.state is ClassicState.PREPARING_REBALANCE:
            # during a rebalance only members with a pending JoinGroup count
            if known is not None and known.joining is not None:
                return True
            return self.joining_count < limit
        return known is not None or len(self.members) < limit

    def _check_metadata_size(self, request: Join) -> None:
        """Raise GROUP_MAX_SIZE_REACHED when the group's metadata, without the member's old one, would exceed its bound."""
        before = self.members.get(request.member_id)
        if before is None and request.instance_id is not None:
            before = self.static_member(request.instance_id)
        present = self.metadata_bytes - (0 if before is None else bytes_of(before.protocols))
        if present + bytes_of(request.protocols) > GROUP_METADATA_BYTES_MAX:
            raise PeerError(ErrorCode.group_max_size_reached, "the metadata of this group is too large")

    # ------------------------------------------------------------------------------------------------------ new members

    def _join_unknown(self, request: Join, ticket: Ticket, now_ms: int) -> None:
        if request.instance_id is not None:
            held = self.static_member(request.instance_id)
            member_id = self.port.new_member_id(request.instance_id)
            if held is None:
                self._add(request, member_id, ticket, now_ms, knows_id=False)
            else:
                self._replace(held, request, member_id, ticket, now_ms)
            return
        member_id = self.port.new_member_id(request.client_id)
        if request.requires_known_member_id:
            self.expect(member_id, now_ms + request.session_timeout_ms)
            self.port.schedule(self, now_ms + request.session_timeout_ms)
            ticket.reply(refused_join(member_id, ErrorCode.member_id_required))
        else:
            self._add(request, member_id, ticket, now_ms, knows_id=False)

    def _add(self, request: Join, member_id: str, ticket: Ticket, now_ms: int, *, knows_id: bool) -> None:
        member = Member(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
        )
        member.is_new = True
        member.knows_id = knows_id
        member.deadline_ms = now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS
        self.port.schedule(self, member.deadline_ms)
        if not self.members:
            self.protocol_type = request.protocol_type
        self.add(member)
        self.hold_join(member, ticket)
        if self.state is ClassicState.PREPARING_REBALANCE:
            self.new_member_added = True
            self.try_complete_join(now_ms)
        else:
            self.prepare_rebalance(f"new member {member_id}", now_ms)

    def _replace(self, member: Member, request: Join, member_id: str, ticket: Ticket, now_ms: int) -> None:
        """A static member returns without its id and takes its old place under a new one.

        A stable group does not rebalance if the member still wants the same topics under the same protocol. The new id is
        written, and the member gets the current generation (KIP-345, KIP-814).
        """
        old_id, before = member.member_id, (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        wanted = subscribed_topics((member.metadata_of(self.protocol),))
        self._replace_static(member, member_id)
        self._update(member, request)
        is_same = (
            self.state is ClassicState.STABLE
            and self.select_protocol() == self.protocol
            and subscribed_topics((member.metadata_of(self.protocol),)) == wanted
        )
        if not is_same:
            self._rejoin(member, ticket, f"static member {request.instance_id} rejoins", now_ms)
            return
        self.restart_session(member, now_ms)
        generation = self.generation

        def written(error_code: ErrorCode) -> None:
            if self.members.get(member_id) is not member or self.generation != generation:
                ticket.reply(refused_join("", ErrorCode.unknown_member_id))
            elif error_code != ErrorCode.none:
                self._replace_static(member, old_id)
                self.change_protocols(member, before[0])
                member.rebalance_timeout_ms, member.session_timeout_ms = before[1:]
                ticket.reply(refused_join("", error_code))
            elif request.skips_assignment:
                ticket.reply(self._joined(member, skip_assignment=self.leader_id == member_id))
            else:
                # before v9 the response cannot say "keep the assignment", so it must not name the member as leader
                leader_id = old_id if self.leader_id == member_id else None
                ticket.reply(self._joined(member, leader_id=leader_id))

        self.port.write(self, None, written)

    # ---------------------------------------------------------------------------------------------------- known members

    def _join_known(self, request: Join, ticket: Ticket, now_ms: int) -> None:
        member_id = request.member_id
        if member_id in self.pending:
            if request.instance_id is not None:
                raise PeerError(ErrorCode.unknown_member_id, "a static member cannot use a pending member id")
            self._add(request, member_id, ticket, now_ms, knows_id=True)
            return
        member = self._known_member(member_id, request.instance_id)
        if self.state in (ClassicState.EMPTY, ClassicState.DEAD):
            raise PeerError(ErrorCode.unknown_member_id)
        if self.state is ClassicState.PREPARING_REBALANCE:
            reason = ""
        elif self.state is ClassicState.STABLE and self.leader_id == member_id:
            reason = f"leader {member_id} rejoins"
        elif member.protocols != request.protocols:
            when = " during the rebalance" if self.state is ClassicState.COMPLETING_REBALANCE else ""
            reason = f"member {member_id} changed its protocols{when}"
        else:
            # its response was lost, so it is sent again
            self.restart_session(member, now_ms)
            ticket.reply(self._joined(member))
            return
        self._update(member, request)
        self._rejoin(member, ticket, reason, now_ms)

    def _known_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member with this id. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if its instance id was taken over."""
        if instance_id is not None:
            static = self.static_member(instance_id)
            if static is None:
                raise PeerError(ErrorCode.unknown_member_id)
            if static.member_id != member_id:
                raise PeerError(ErrorCode.fenced_instance_id)
        member = self.members.get(member_id)
        if member is None:
            raise PeerError(ErrorCode.unknown_member_id)
        return member

    def _update(self, member: Member, request: Join) -> None:
        self.change_protocols(member, request.protocols)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms

    def _rejoin(self, member: Member, ticket: Ticket, reason: str, now_ms: int) -> None:
        # A second JoinGroup answers both requests: the first connection may be gone.
        self.answer_join(member, refused_join(member.member_id, ErrorCode.rebalance_in_progress))
        self.hold_join(member, ticket)
        if member.is_new:
            # it waits in JoinGroup, where it cannot send heartbeats
            member.deadline_ms = now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS
            self.port.schedule(self, member.deadline_ms)
        else:
            self.restart_session(member, now_ms)
        if self.state is ClassicState.PREPARING_REBALANCE:
            self.try_complete_join(now_ms)
        else:
            self.prepare_rebalance(reason, now_ms)

    # --------------------------------------------------------------------------------------------------- members

    def remove(self, member: Member, error_code: ErrorCode = ErrorCode.unknown_member_id) -> None:
        """Remove a member; its pending requests fail with the error, and name no member."""
        self.answer_join(member, refused_join("", error_code))
        self.answer_sync(member, refused_sync(error_code))
        self.unsynced.pop(member.member_id, None)
        self.discard(member)

    def _replace_static(self, member: Member, member_id: str) -> None:
        """Give a returning static member a new id; requests with the old id are fenced."""
        self.answer_join(member, refused_join(member.member_id, ErrorCode.fenced_instance_id))
        self.answer_sync(member, refused_sync(ErrorCode.fenced_instance_id))
        if self.unsynced.pop(member.member_id, member) is None:
            self.unsynced[member_id] = None
        self.rename(member, member_id)

    def restart_session(self, member: Member, now_ms: int) -> None:
        """Restart a member's session."""
        member.deadline_ms = now_ms + member.session_timeout_ms
        self.port.schedule(self, member.deadline_ms)

    def _takes_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether these protocols are compatible with those of the present members."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        return self.supports_one_of(protocols)

    def _joined(self, member: Member, *, skip_assignment: bool = False, leader_id: str | None = None) -> dict[str, Any]:
        """The JoinGroup response to a member of this generation; the leader's response lists all members."""
        leader = self.leader_id if leader_id is None else leader_id
        everybody = self.members.values() if leader == member.member_id else ()
        return {
            "error_code": ErrorCode.none,
            "generation_id": self.generation,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "leader": leader or "",
            "skip_assignment": skip_assignment,
            "member_id": member.member_id,
            "members": listed_for_leader(everybody, self.protocol),
        }

    # ---------------------------------------------------------------------------------------------------- states

    def move(self, state: ClassicState) -> None:
        """Change the state; a transition outside the table is a bug of YAK."""
        assert state in MOVES[self.state], f"group {self.group_id!r} from {self.state} to {state}"
        self.state = state
        self.state_ms = self.port.wall_ms

    def prepare_rebalance(self, reason: str, now_ms: int) -> None:
        """Start a rebalance: all members must rejoin."""
        if self.state is ClassicState.COMPLETING_REBALANCE:
            for member in self.members.values():
                member.assignment = b""
                if self.answer_sync(member, refused_sync(ErrorCode.rebalance_in_progress)):
                    self.restart_session(member, now_ms)
        self.unsynced.clear()
        self.sync_due_ms = self.assignments = None
        self.is_initial = self.state is ClassicState.EMPTY
        self.move(ClassicState.PREPARING_REBALANCE)
        self.port.say("group-rebalancing", group=self.group_id, generation=self.generation, reason=reason)
        if self.is_initial:
            delay_ms = self.settings.initial_rebalance_delay_ms
            self.initial_remaining_ms = max(0, self.rebalance_timeout_ms - delay_ms)
            self.new_member_added = False
            self._wait_for_joins(now_ms + delay_ms)
        else:
            self._wait_for_joins(now_ms + self.rebalance_timeout_ms)
        self.try_complete_join(now_ms)

    def _wait_for_joins(self, due_ms: int) -> None:
        self.join_due_ms = due_ms
        self.port.schedule(self, due_ms)

    def try_complete_join(self, now_ms: int) -> None:
        """Complete the join phase when every member has joined."""
        if self.state is not ClassicState.PREPARING_REBALANCE:
            return
        if self.is_initial and self.settings.initial_rebalance_delay_ms:
            return
        if self.have_all_joined:
            self._complete_join(now_ms)

    def _joining_is_over(self, now_ms: int) -> None:
        delay_ms = min(self.settings.initial_rebalance_delay_ms, self.initial_remaining_ms)
        if self.is_initial and self.new_member_added and delay_ms:
            self.new_member_added = False
            self.initial_remaining_ms -= delay_ms
            self._wait_for_joins(now_ms + delay_ms)
        else:
            self._complete_join(now_ms)

    def _complete_join(self, now_ms: int) -> None:
        """Start the next generation with the joined members. Other members are removed, unless they are static."""
        for member in [each for each in self.members.values() if each.joining is None and not each.is_static]:
            self.remove(member)
        if self.members and not self._elect_joined_leader():
            # All remaining members are static and away; they may rejoin, and the first delay is over.
            self.is_initial = False
            self._wait_for_joins(now_ms + max(self.rebalance_timeout_ms, ALL_AWAY_MS_MIN))
            return
        self.is_initial = False
        self.join_due_ms = None
        self.generation = self.generation % INT32_MAX + 1  # clients compare it for equality only
        if not self.members:
            self.protocol = self.leader_id = None
            self.topics = frozenset() if self.protocol_type == CONSUMER_PROTOCOL else None
            self.move(ClassicState.EMPTY)
            self.port.say("group-empty", group=self.group_id, generation=self.generation)
            self.port.write(self, None, _ignore)
            return
        self.protocol = self.select_protocol()
        self.topics = self._subscribed_topics()
        self.move(ClassicState.COMPLETING_REBALANCE)
        self.sync_due_ms = now_ms + self.rebalance_timeout_ms
        self.port.schedule(self, self.sync_due_ms)
        for member in self.members.values():
            self.unsynced[member.member_id] = None
            self.restart_session(member, now_ms)
            self.answer_join(member, self._joined(member))
            member.is_new = False
            member.knows_id = True

    def _elect_joined_leader(self) -> bool:
        """Replace a leader that has not joined; False when no member has (ClassicGroup.maybeElectNewJoinedLeader)."""
        leader = None if self.leader_id is None else self.members.get(self.leader_id)
        if leader is None or leader.joining is None:
            joined = next((each for each in self.members.values() if each.joining is not None), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL or self.protocol is None:
            return None
        return subscribed_topics(member.metadata_of(self.protocol) for member in self.members.values())

    def _assigned(self, assignments: Mapping[str, bytes], now_ms: int) -> None:
        """The leader's assignment is committed: answer every pending SyncGroup."""
        self.move(ClassicState.STABLE)
        self.port.say("group-stable", group=self.group_id, generation=self.generation, members=len(self.members))
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if self.answer_sync(member, self._synced(member)):
                self.restart_session(member, now_ms)

    def member_left(self, reason: str, now_ms: int) -> None:
        """Rebalance after members were removed."""
        if self.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            self.prepare_rebalance(reason, now_ms)
        else:
            self.try_complete_join(now_ms)

    # --------------------------------------------------------------------------- SyncGroup, Heartbeat, LeaveGroup

    def _synced(self, member: Member) -> dict[str, Any]:
        """The SyncGroup response: the member's assignment."""
        return {
            "error_code": ErrorCode.none,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "assignment": member.assignment,
        }

    @changes_state
    def sync(self, request: Sync, ticket: Ticket, now_ms: int) -> None:
        """Handle a SyncGroup: the response with the assignment is sent as soon as the assignment is committed."""
        try:
            member = self._known_member(request.member_id, request.instance_id)
            if request.generation != self.generation:
                raise PeerError(ErrorCode.illegal_generation)
            # before the protocol: a group that has just gone back to the classic one may have chosen another
            if self.state is ClassicState.PREPARING_REBALANCE:
                raise PeerError(ErrorCode.rebalance_in_progress)
            if request.protocol_type not in (None, self.protocol_type) or request.protocol not in (None, self.protocol):
                raise PeerError(ErrorCode.inconsistent_group_protocol)
            if self.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
                raise PeerError(ErrorCode.unknown_member_id)
        except PeerError as refusal:
            ticket.reply(refused_sync(refusal.error_code))
            return
        self.unsynced.pop(member.member_id, None)
        self.restart_session(member, now_ms)
        if self.state is ClassicState.STABLE:
            ticket.reply(self._synced(member))
            return
        self.answer_sync(member, refused_sync(ErrorCode.rebalance_in_progress))
        self.hold_sync(member, ticket)
        if self.leader_id == member.member_id:
            self._take_assignments(request.assignments)

    def _take_assignments(self, assignments: dict[str, bytes]) -> None:
        """Write the leader's assignment; it takes effect when committed, unless a new rebalance has started.

        A leader that lost its connection may send another one before that. The log's last one counts, as after a failover.
        """
        self.assignments = assignments

        def written(error_code: ErrorCode) -> None:
            if self.state is not ClassicState.COMPLETING_REBALANCE or self.assignments is not assignments:
                return
            if error_code == ErrorCode.none:
                self._assigned(assignments, self.port.now_ms)
                return
            for member in self.members.values():
                if self.answer_sync(member, refused_sync(error_code)):
                    self.restart_session(member, self.port.now_ms)
            self.prepare_rebalance(f"the assignment could not be written: {error_code.name}", self.port.now_ms)

        self.port.write(self, assignments, written)

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now_ms: int) -> None:
        """Renew a member's session. Raises PeerError; REBALANCE_IN_PROGRESS makes the member rejoin."""
        member = self._known_member(member_id, instance_id)
        if self.state is ClassicState.EMPTY:
            raise PeerError(ErrorCode.unknown_member_id)
        if generation != self.generation:
            raise PeerError(ErrorCode.illegal_generation)
        self.restart_session(member, now_ms)
        if self.state is ClassicState.PREPARING_REBALANCE:
            raise PeerError(ErrorCode.rebalance_in_progress)

    def _leave(self, member_id: str, instance_id: str | None, reason: str | None) -> ErrorCode:
        """Remove one member; the caller then calls `ClassicGroup.member_left`, once for all removed members.

        An administrator removes a static member by its instance id alone.
        """
        if instance_id is None and member_id in self.pending:
            del self.pending[member_id]
            return ErrorCode.none
        try:
            if instance_id is not None and not member_id:
                member = self.static_member(instance_id)
                if member is None:
                    return ErrorCode.unknown_member_id
            else:
                member = self._known_member(member_id, instance_id)
        except PeerError as refusal:
            return refusal.error_code
        self.port.say("group-member-left", group=self.group_id, member=member.member_id, reason=reason or "")
        self.remove(member)
        return ErrorCode.none

    @changes_state
    def leave_all(self, leaving: list[tuple[str, str | None, str | None]], now_ms: int) -> list[dict[str, Any]]:
        """Remove these (member id, instance id, reason); returns a response for each."""
        before = len(self.members)
        answers = []
        for member_id, instance_id, reason in leaving:
            code = self._leave(member_id, instance_id, reason)
            answers.append({"member_id": member_id, "group_instance_id": instance_id, "error_code": code})
        if len(self.members) < before:
            self.member_left("members left", now_ms)
        else:
            # Kafka would start a rebalance here even if only an unused pending id was removed.
            self.try_complete_join(now_ms)
        return answers

    # ---------------------------------------------------------------------------------------------------- offsets

    def check_commit(self, member_id: str, instance_id: str | None, generation: int, now_ms: int) -> None:
        """Raise PeerError unless the client may commit: a member of this generation, or any client of an empty group.

        A member's commit also counts as a heartbeat.
        """
        if generation < 0 and self.state is ClassicState.EMPTY:
            return
        if generation < 0 and not member_id and instance_id is None:
            raise PeerError(ErrorCode.unknown_member_id, "the group has members; only members may commit")
        member = self._known_member(member_id, instance_id)
        if generation != self.generation:
            raise PeerError(ErrorCode.illegal_generation)
        if self.state is ClassicState.COMPLETING_REBALANCE:
            raise PeerError(ErrorCode.rebalance_in_progress)
        self.restart_session(member, now_ms)

    def check_transactional_commit(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Raise PeerError unless a producer may commit offsets in a transaction: in any state of the group.

        TxnOffsetCommit before v3 names no member (KIP-447). A member that is named must be one of this generation.
        """
        if generation < 0 and (self.state is ClassicState.EMPTY or (not member_id and instance_id is None)):
            return
        self._known_member(member_id, instance_id)
        if generation != self.generation:
            raise PeerError(ErrorCode.illegal_generation)

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member consumes the topic, which protects its offsets; True when the subscriptions are unknown."""
        return bool(self.members) and (self.topics is None or topic in self.topics)

    def check_deletion_of_offsets(self) -> None:
        """Raise NON_EMPTY_GROUP when the group has members that are not consumers (validateOffsetDelete)."""
        if self.members and self.protocol_type != CONSUMER_PROTOCOL:
            raise PeerError(ErrorCode.non_empty_group)

    # ------------------------------------------------------------------------------------------------------ time

    def next_due(self) -> int | None:
        """When `on_time` is due next, in ms; scans all members."""
        dues = [due for due in (self.join_due_ms, self.sync_due_ms) if due is not None]
        silent = [member.deadline_ms for member in self.members.values()]
        silent.extend(self.pending.values())
        if silent:
            dues.append(max(min(silent), self.checked_ms + len(silent) // MEMBERS_A_MS))
        return min(dues, default=None)

    def on_time(self, now_ms: int) -> None:
        """Remove members whose session expired, and end join and sync phases that timed out."""
        self.checked_ms = now_ms
        for member_id in [each for each, due_ms in self.pending.items() if due_ms <= now_ms]:
            del self.pending[member_id]
        for member in [each for each in self.members.values() if each.deadline_ms <= now_ms]:
            self._expire_session(member, now_ms)
        if self.sync_due_ms is not None and self.sync_due_ms <= now_ms:
            self._expire_pending_syncs(now_ms)
        if self.join_due_ms is not None and self.join_due_ms <= now_ms:
            self._joining_is_over(now_ms)
        else:
            self.try_complete_join(now_ms)

    def _expire_session(self, member: Member, now_ms: int) -> None:
        if self.members.get(member.member_id) is not member or member.deadline_ms > now_ms:
            return  # the end of another session has removed it, or answered its request, which restarts its session
        if not member.is_new and (member.joining is not None or member.syncing is not None):
            # its request is pending here, so its session goes on
            self.restart_session(member, now_ms)
            return
        self.port.say("group-member-expired", group=self.group_id, member=member.member_id)
        self.remove(member)
        self.member_left(f"the session of member {member.member_id} expired", now_ms)

    def _expire_pending_syncs(self, now_ms: int) -> None:
        self.sync_due_ms = None
        late = [self.members[each] for each in self.unsynced if each in self.members]
        if not late or self.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            return
        for member in late:
            self.remove(member)
        self.prepare_rebalance(f"{len(late)} members sent no SyncGroup in time", now_ms)

    @changes_state
    def ticket_lost(self, member: Member, ticket: Ticket, now_ms: int) -> None:
        """The connection of a pending request closed: the member's session goes on until it times out.

        A dynamic member whose client never received its id leaves at once, since no client can renew it.
        """
        if member.joining is ticket:
            self.take_join(member)
            if not member.knows_id and not member.is_static:
                self.remove(member)
                self.member_left(f"the connection of new member {member.member_id} is gone", now_ms)
                return
        elif member.syncing is ticket:
            self.take_sync(member)
        else:
            return
        self.restart_session(member, now_ms)

    # ------------------------------------------------------------------------------------------- load and unload

    def restore(self, stored: StoredGroup) -> None:
        """Apply the group's record. `arm` starts the sessions."""
        self.protocol_type = stored.protocol_type or None
        for member in stored.members:
            self.add(member)
        self.generation, self.protocol, self.leader_id = stored.generation, stored.protocol, stored.leader
        self.state = ClassicState.STABLE if stored.members else ClassicState.EMPTY
        self.state_ms = stored.state_ms if stored.state_ms >= 0 else self.port.wall_ms
        if stored.members:
            self.topics = self._subscribed_topics()
        elif self.protocol_type == CONSUMER_PROTOCOL:
            self.topics = frozenset()

    def arm(self, now_ms: int) -> None:
        """Start every member's session when this coordinator becomes active.

        A group above `group.max.size`, which may be lower now, rebalances (GroupMetadataManager.onLoaded). So does one
        that has no leader, since it went back to the classic protocol.
        """
        for member in self.members.values():
            self.restart_session(member, now_ms)
        if len(self.members) > self.settings.max_size:
            self.prepare_rebalance("it has more members than group.max.size", now_ms)
        elif self.members and self.leader_id is None:
            self.prepare_rebalance("the group went back to the classic protocol", now_ms)

    def die(self, error_code: ErrorCode) -> None:
        """The group is removed, or coordinated elsewhere: every pending request fails with the error."""
        for member in self.members.values():
            self.answer_join(member, refused_join(member.member_id, error_code))
            self.answer_sync(member, refused_sync(error_code))
        if self.state is not ClassicState.DEAD:
            self.move(ClassicState.DEAD)
        self.pending.clear()
        self.join_due_ms = self.sync_due_ms = None


def _ignore(_error_code: ErrorCode) -> None:
    """Ignore a failed write of an empty group: the next coordinator empties it when the stored sessions expire."""


def refused_join(member_id: str, error_code: ErrorCode) -> dict[str, Any]:
    """The response to a failed JoinGroup."""
    return {
        "error_code": error_code,
        "generation_id": NO_GENERATION,
        "protocol_type": None,
        "protocol_name": None,
        "leader": "",
        "skip_assignment": False,
        "member_id": member_id,
        "members": [],
    }


def refused_sync(error_code: ErrorCode) -> dict[str, Any]:
    """The response to a failed SyncGroup."""
    return {"error_code": error_code, "protocol_type": None, "protocol_name": None, "assignment": b""}
