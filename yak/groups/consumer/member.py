"""A member of a consumer group, as its records define it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

from yak.groups.consumer.partitions import NO_PARTITIONS, AssignmentEpochs, Partitions
from yak.groups.consumer.records import ClassicMetadata, CurrentValue, MemberValue

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2


_METADATA = tuple(MemberValue.__dataclass_fields__)
"""The fields that a member and the value of its metadata record have in common."""


class MemberState(IntEnum):
    """How far a member has reconciled with its target (MemberState.java); the records have these numbers."""

    STABLE = 0
    """It has all partitions of its epoch's target assignment."""
    UNREVOKED_PARTITIONS = 1
    """It must revoke partitions, and has not confirmed that yet."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members have not revoked yet."""
    UNKNOWN = 127
    """A state of a newer version: the member must revoke everything and rejoin."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member. It may use the partitions in `assigned`; it may still hold those in `revoking`, and must revoke them.

    The member's next heartbeat must have `epoch`. `previous_epoch` is valid too, since the response with the new one
    may be lost. `assignment_epochs` has all partitions that it holds: since when it may commit their offsets. `classic`
    is the content of its JoinGroup, if it uses the classic protocol.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    assigned: Partitions = NO_PARTITIONS
    revoking: Partitions = NO_PARTITIONS
    assignment_epochs: AssignmentEpochs = field(default_factory=dict)
    classic: ClassicMetadata | None = None

    @property
    def held(self) -> Partitions:
        """All partitions that no other member may get: assigned or not revoked yet."""
        return self.assigned | self.revoking if self.revoking else self.assigned

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it has reached the target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def metadata(self) -> MemberValue:
        """The value of its member metadata record."""
        value = {name: getattr(self, name) for name in _METADATA}
        return MemberValue(**value | {"topic_names": tuple(sorted(self.topic_names))})

    def with_metadata(self, value: MemberValue) -> Member:
        """The member with this metadata."""
        named = {name: getattr(value, name) for name in _METADATA}
        named |= {"topic_names": frozenset(value.topic_names), "topic_regex": value.topic_regex or ""}
        return replace(self, **named)

    def current(self) -> CurrentValue:
        """The value of its current assignment record."""
        return CurrentValue(
            self.epoch, self.previous_epoch, self.state, self.assigned, self.revoking, self.assignment_epochs
        )

    def with_current(self, value: CurrentValue | None) -> Member:
        """The member with this assignment; a tombstone (None) clears it."""
        if value is None:
            value = CurrentValue(LEAVE_EPOCH, LEAVE_EPOCH, MemberState.STABLE)
        known = value.state in MemberState._value2member_map_
        return replace(
            self,
            epoch=value.epoch,
            previous_epoch=value.previous_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=value.assigned,
            revoking=value.revoking,
            assignment_epochs=value.assignment_epochs,
        )
