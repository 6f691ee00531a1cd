"""A group of either protocol, with its committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from yak.errors import ErrorCode, PeerError
from yak.groups.classic.group import CONSUMER_PROTOCOL, ClassicGroup, ClassicState
from yak.groups.classic.records import group_key
from yak.groups.consumer import checks
from yak.groups.consumer.group import ConsumerGroup
from yak.groups.consumer.partitions import TopicIdPartition
from yak.groups.offsets import NO_EXPIRY, Committed, Offsets, offset_record
from yak.groups.record import Record
from yak.ids import Offset

CLASSIC_TYPE, CONSUMER_TYPE = "classic", "consumer"


@dataclass(slots=True, eq=False, repr=False)
class Group:
    """A group: `consumer` is set while it uses the KIP-848 protocol; otherwise `members` has the classic members.

    `uncommitted_end` is the end offset of the group's last record in the log. Decisions use written but uncommitted
    state: only a new leader can truncate it, and a new leader reloads the whole group. A response that depends on that
    state waits until it is committed.
    """

    group_id: str
    members: ClassicGroup
    consumer: ConsumerGroup | None = None
    offsets: Offsets = field(default_factory=Offsets)
    uncommitted_end: Offset = 0

    @property
    def type_name(self) -> str:
        """The group type in ListGroups."""
        return CLASSIC_TYPE if self.consumer is None else CONSUMER_TYPE

    @property
    def protocol_type(self) -> str:
        """The protocol type of the members; empty when the group never had members."""
        return CONSUMER_PROTOCOL if self.consumer is not None else self.members.protocol_type or ""

    @property
    def state_name(self) -> str:
        """The state name that clients see."""
        return self.members.state.value if self.consumer is None else self.consumer.state.state_name

    @property
    def has_members(self) -> bool:
        """Whether the group has members or a rebalance is under way."""
        if self.consumer is not None:
            return bool(self.consumer.state.members)
        return self.members.state is not ClassicState.EMPTY

    @property
    def is_void(self) -> bool:
        """Whether the group has no offset, no member and no record in the log."""
        if self.offsets or self.members.pending or self.has_members:
            return False
        return self.consumer is None and self.members.protocol_type is None

    def forgetting(self) -> Iterator[Record]:
        """The tombstones of all committed and pending offsets of the group, and then its own."""
        yield from (offset_record(self.group_id, *place, None) for place in self.offsets.partitions())
        yield from self.forgetting_classic() if self.consumer is None else self.consumer.tombstones()

    def forgetting_classic(self) -> list[Record]:
        """The tombstone of the classic group, if the group has a record."""
        return [] if self.members.protocol_type is None else [Record(group_key(self.group_id), None)]

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member consumes the topic, which protects its offsets from deletion."""
        if self.consumer is not None:
            return self.consumer.state.is_subscribed_to(topic)
        return self.members.is_subscribed(topic)

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        partitions: Iterable[TopicIdPartition],
        *,
        api_version: int,
        now_ms: int,
    ) -> None:
        """Raise PeerError unless this member may commit offsets of these partitions."""
        if self.consumer is not None:
            state = self.consumer.state
            checks.check_commit(state, member_id, instance_id, generation, partitions, api_version=api_version)
        else:
            self.members.check_commit(member_id, instance_id, generation, now_ms)

    def check_transactional_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        partitions: Iterable[TopicIdPartition],
        *,
        knows_stale_epochs: bool,
    ) -> None:
        """Raise PeerError unless a producer may commit offsets of these partitions in a transaction for this member.

        ILLEGAL_GENERATION for a producer that does not know STALE_MEMBER_EPOCH
        (OffsetMetadataManager.validateTransactionalOffsetCommit).
        """
        if self.consumer is None:
            self.members.check_transactional_commit(member_id, instance_id, generation)
            return
        try:
            state = self.consumer.state
            checks.check_commit(
                state, member_id, instance_id, generation, partitions, is_transactional=True, api_version=0
            )
        except PeerError as error:
            if error.error_code == ErrorCode.stale_member_epoch and not knows_stale_epochs:
                raise PeerError(ErrorCode.illegal_generation, error.message) from None
            raise

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise PeerError unless this member may fetch offsets. A classic group lets every client fetch them."""
        if self.consumer is not None:
            checks.check_fetch(self.consumer.state, member_id, member_epoch)

    def check_deletion_of_offsets(self) -> None:
        """Raise NON_EMPTY_GROUP when the group has classic members that are not consumers."""
        if self.consumer is None:
            self.members.check_deletion_of_offsets()

    def keeps_offsets(self, topic: str) -> bool:
        """Whether no offset of the topic expires, since members consume it or may (KIP-211; ClassicGroup and
        ConsumerGroup.offsetExpirationCondition)."""
        if self.consumer is not None:
            return self.consumer.state.is_subscribed_to(topic)
        members = self.members
        if members.protocol_type is None or members.state is ClassicState.EMPTY:
            return False
        return members.state is not ClassicState.STABLE or members.is_subscribed(topic)

    def is_expired(self, committed: Committed, now_ms: int, retention_ms: int) -> bool:
        """Whether a committed offset has expired, of a topic whose offsets the group does not keep."""
        if committed.expire_ms != NO_EXPIRY:
            return now_ms >= committed.expire_ms
        is_left = self.consumer is None and self.members.protocol_type is not None
        if is_left and self.members.state is ClassicState.EMPTY:
            return now_ms - self.members.state_ms >= retention_ms
        return now_ms - committed.commit_ms >= retention_ms
