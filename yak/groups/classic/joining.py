"""JoinGroup on a classic group: which members may join, and when a join starts a rebalance.

The rules are those of Kafka's GroupMetadataManager.classicGroupJoin. A new dynamic member sends JoinGroup twice
(KIP-394): the first response only gives it an id, so that a client which disappears leaves no ghost member. A static
member (KIP-345) is identified by its instance id.
"""

from __future__ import annotations

from dataclasses import dataclass

from yak.errors import ErrorCode, PeerError
from yak.fail_stop import changes_state
from yak.groups.classic.answers import joined, refused_join
from yak.groups.classic.group import NEW_MEMBER_JOIN_TIMEOUT_MS, ClassicGroup
from yak.groups.classic.member import Member, Protocols, Ticket
from yak.groups.classic.roster import bytes_of
from yak.groups.classic.states import ClassicState
from yak.groups.classic.subscription import subscribed_topics
from yak.limits import GROUP_METADATA_BYTES_MAX

_PREPARING, _COMPLETING = ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE


@dataclass(slots=True, frozen=True)
class Join:
    """A JoinGroup of any version. `instance_id` is None for a dynamic member.

    `must_ask_twice`: from v4 on, the first response to a new member only gives it an id. `skips_assignment`: from v9
    on, a response can tell the leader that its assignment still holds.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    must_ask_twice: bool = True
    skips_assignment: bool = False


def check_timeouts(group_min_ms: int, group_max_ms: int, session_timeout_ms: int) -> None:
    """Raise INVALID_SESSION_TIMEOUT unless the broker allows this session timeout."""
    if not group_min_ms <= session_timeout_ms <= group_max_ms:
        raise PeerError(
            ErrorCode.invalid_session_timeout,
            f"session timeout {session_timeout_ms} ms is not in [{group_min_ms}, {group_max_ms}]",
        )


@changes_state
def join(group: ClassicGroup, request: Join, ticket: Ticket, now_ms: int) -> None:
    """Handle a JoinGroup: the response is sent at once, or at the end of its rebalance."""
    try:
        if not _has_room(group, request.member_id):
            held = group.members.get(request.member_id)
            if held is not None:
                group.remove(held, ErrorCode.group_max_size_reached)
                group.try_complete_join(now_ms)
            raise PeerError(ErrorCode.group_max_size_reached)
        _check_words(group, request)
        if not group.takes_protocols(request.protocol_type, request.protocols):
            raise PeerError(ErrorCode.inconsistent_group_protocol)
        if not request.member_id:
            _join_unknown(group, request, ticket, now_ms)
        else:
            _join_known(group, request, ticket, now_ms)
    except PeerError as refusal:
        ticket.reply(refused_join(request.member_id, refusal.error_code))


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    """Whether `group.max.size` admits this member (acceptJoiningMember)."""
    limit = group.settings.max_size
    known = group.members.get(member_id)
    if group.state is ClassicState.EMPTY:
        return True
    if group.state is _PREPARING:
        # during a rebalance only members with a pending JoinGroup count
        if known is not None and known.joining is not None:
            return True
        return group.joining_count < limit
    return known is not None or len(group.members) < limit


def _check_words(group: ClassicGroup, request: Join) -> None:
    """Raise GROUP_MAX_SIZE_REACHED when the group's metadata, without the member's old one, would exceed its bound."""
    before = group.members.get(request.member_id)
    if before is None and request.instance_id is not None:
        before = group.static_member(request.instance_id)
    present = group.said_bytes - (0 if before is None else bytes_of(before.protocols))
    if present + bytes_of(request.protocols) > GROUP_METADATA_BYTES_MAX:
        raise PeerError(ErrorCode.group_max_size_reached, "the metadata of this group is too large")


# ------------------------------------------------------------------------------------------------------ new members


def _join_unknown(group: ClassicGroup, request: Join, ticket: Ticket, now_ms: int) -> None:
    if request.instance_id is not None:
        held = group.static_member(request.instance_id)
        member_id = group.port.new_member_id(request.instance_id)
        if held is None:
            _add(group, request, member_id, ticket, now_ms, knows_id=False)
        else:
            _replace(group, held, request, member_id, ticket, now_ms)
        return
    member_id = group.port.new_member_id(request.client_id)
    if request.must_ask_twice:
        group.expect(member_id, now_ms + request.session_timeout_ms)
        group.port.schedule(group, now_ms + request.session_timeout_ms)
        ticket.reply(refused_join(member_id, ErrorCode.member_id_required))
    else:
        _add(group, request, member_id, ticket, now_ms, knows_id=False)


def _add(group: ClassicGroup, request: Join, member_id: str, ticket: Ticket, now_ms: int, *, knows_id: bool) -> None:
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
    group.port.schedule(group, member.deadline_ms)
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add(member)
    group.hold_join(member, ticket)
    if group.state is _PREPARING:
        group.must_wait_longer = True
        group.try_complete_join(now_ms)
    else:
        group.prepare_rebalance(f"new member {member_id}", now_ms)


def _replace(group: ClassicGroup, member: Member, request: Join, member_id: str, ticket: Ticket, now_ms: int) -> None:
    """A static member returns without its id and takes its old place under a new one.

    A stable group does not rebalance if the member still wants the same topics under the same protocol. The new id is
    written, and the member gets the current generation (KIP-345, KIP-814).
    """
    old_id, before = member.member_id, (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    wanted = subscribed_topics((member.metadata_of(group.protocol),))
    group.replace_static(member, member_id)
    _update(group, member, request)
    is_same = (
        group.state is ClassicState.STABLE
        and group.select_protocol() == group.protocol
        and subscribed_topics((member.metadata_of(group.protocol),)) == wanted
    )
    if not is_same:
        _rejoin(group, member, ticket, f"static member {request.instance_id} rejoins", now_ms)
        return
    group.heard_of(member, now_ms)
    generation = group.generation

    def written(error_code: ErrorCode) -> None:
        if group.members.get(member_id) is not member or group.generation != generation:
            ticket.reply(refused_join("", ErrorCode.unknown_member_id))
        elif error_code != ErrorCode.none:
            group.replace_static(member, old_id)
            group.change_protocols(member, before[0])
            member.rebalance_timeout_ms, member.session_timeout_ms = before[1:]
            ticket.reply(refused_join("", error_code))
        elif request.skips_assignment:
            ticket.reply(joined(group, member, skip_assignment=group.leader_id == member_id))
        else:
            # before v9 the response cannot say "keep the assignment", so it must not name the member as leader
            leader_id = old_id if group.leader_id == member_id else None
            ticket.reply(joined(group, member, leader_id=leader_id))

    group.port.write(group, None, written)


# ---------------------------------------------------------------------------------------------------- known members


def _join_known(group: ClassicGroup, request: Join, ticket: Ticket, now_ms: int) -> None:
    member_id = request.member_id
    if member_id in group.pending:
        if request.instance_id is not None:
            raise PeerError(ErrorCode.unknown_member_id, "a static member cannot use a pending member id")
        _add(group, request, member_id, ticket, now_ms, knows_id=True)
        return
    member = known_member(group, member_id, request.instance_id)
    if group.state is _PREPARING:
        _update(group, member, request)
        _rejoin(group, member, ticket, "", now_ms)
    elif group.state is _COMPLETING:
        if member.protocols == request.protocols:
            # its response was lost, so it is sent again
            group.heard_of(member, now_ms)
            ticket.reply(joined(group, member))
        else:
            _update(group, member, request)
            _rejoin(group, member, ticket, f"member {member_id} changed its protocols during the rebalance", now_ms)
    elif group.state is ClassicState.STABLE:
        is_leader = group.leader_id == member_id
        if is_leader or member.protocols != request.protocols:
            _update(group, member, request)
            _rejoin(
                group,
                member,
                ticket,
                f"leader {member_id} rejoins" if is_leader else f"member {member_id} changed its protocols",
                now_ms,
            )
        else:
            group.heard_of(member, now_ms)
            ticket.reply(joined(group, member))
    else:
        raise PeerError(ErrorCode.unknown_member_id)


def known_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> Member:
    """The member with this id. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if its instance id was taken over."""
    if instance_id is not None:
        static = group.static_member(instance_id)
        if static is None:
            raise PeerError(ErrorCode.unknown_member_id)
        if static.member_id != member_id:
            raise PeerError(ErrorCode.fenced_instance_id)
    member = group.members.get(member_id)
    if member is None:
        raise PeerError(ErrorCode.unknown_member_id)
    return member


def _update(group: ClassicGroup, member: Member, request: Join) -> None:
    group.change_protocols(member, request.protocols)
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms


def _rejoin(group: ClassicGroup, member: Member, ticket: Ticket, reason: str, now_ms: int) -> None:
    # A second JoinGroup answers both requests: the first connection may be gone.
    group.answer_join(member, refused_join(member.member_id, ErrorCode.rebalance_in_progress))
    group.hold_join(member, ticket)
    group.heard_of(member, now_ms)
    if group.state is _PREPARING:
        group.try_complete_join(now_ms)
    else:
        group.prepare_rebalance(reason, now_ms)
