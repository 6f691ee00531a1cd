"""A member of a consumer group, as its records say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from yak.groups.consumer.partitions import NO_PARTITIONS, Partitions
from yak.groups.consumer.records import ClassicMetadata, CurrentValue, MemberValue

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2


class MemberState(IntEnum):
    """How far a member is on its way to its target (MemberState.java); the numbers are those of the records."""

    STABLE = 0
    """It has what the target assignment of its epoch gives it."""
    UNREVOKED_PARTITIONS = 1
    """It was told to give partitions back, and did not say yet that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others did not give back yet."""
    UNKNOWN = 127
    """A newer version's state: the member begins anew."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member. `assigned` is what it may use, `revoking` what it may still hold but must give back.

    `epoch` is what its next heartbeat must carry; `previous_epoch` is taken too, since the answer with the new one may have
    been lost. `classic` is what it said when it joined, if it speaks the classic protocol.
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
    classic: ClassicMetadata | None = None

    @property
    def held(self) -> Partitions:
        """All that nobody else may get: what it uses, and what it has not given back."""
        return self.assigned | self.revoking if self.revoking else self.assigned

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it has all of the target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def metadata(self) -> MemberValue:
        """What is recorded of what it said."""
        return MemberValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            topic_names=tuple(sorted(self.topic_names)),
            topic_regex=self.topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            assignor=self.assignor,
            classic=self.classic,
        )

    def with_metadata(self, value: MemberValue) -> Member:
        """The member after it said this."""
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.topic_names),
            topic_regex=value.topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.assignor,
            classic=value.classic,
        )

    def current(self) -> CurrentValue:
        """What is recorded of its assignment."""
        return CurrentValue(self.epoch, self.previous_epoch, self.state, self.assigned, self.revoking)

    def with_current(self, value: CurrentValue | None) -> Member:
        """The member with this assignment; with none when the record was taken back."""
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
        )
