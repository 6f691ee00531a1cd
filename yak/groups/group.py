"""A group, of whichever protocol its members speak, with what it has committed."""

from __future__ import annotations

from yak.errors import ErrorCode, PeerError
from yak.groups.classic import checks
from yak.groups.classic.group import CONSUMER_PROTOCOL, ClassicGroup
from yak.groups.classic.records import group_key
from yak.groups.classic.states import ClassicState
from yak.groups.consumer.group import ConsumerGroup
from yak.groups.offsets import NO_EXPIRY, Committed, Offsets, offset_record
from yak.groups.record import Record
from yak.ids import Offset

CLASSIC_TYPE, CONSUMER_TYPE = "classic", "consumer"


class Group:
    """A group: `consumer` where its members speak the protocol of KIP-848, else `members`, which then is empty.

    `uncommitted_end` is the end offset of its last record in the log. What was written and is not committed yet counts for the next
    decision, since only another leader can take it back, and then all of this is read anew; but no answer that rests on it leaves before
    it is committed.
    """

    __slots__ = ("consumer", "group_id", "members", "offsets", "uncommitted_end")

    def __init__(self, group_id: str, members: ClassicGroup) -> None:
        self.group_id = group_id
        self.members = members
        self.consumer: ConsumerGroup | None = None
        self.offsets = Offsets()
        self.uncommitted_end: Offset = 0

    @property
    def type_name(self) -> str:
        """What ListGroups calls its protocol."""
        return CLASSIC_TYPE if self.consumer is None else CONSUMER_TYPE

    @property
    def protocol_type(self) -> str:
        """What its members are; empty where it never had any."""
        return CONSUMER_PROTOCOL if self.consumer is not None else self.members.protocol_type or ""

    @property
    def state_name(self) -> str:
        """Its state, as clients see it."""
        return self.members.state.value if self.consumer is None else self.consumer.state_name

    @property
    def has_members(self) -> bool:
        """Whether anybody is in it, or about to join."""
        if self.consumer is not None:
            return not self.consumer.is_empty
        return self.members.state is not ClassicState.EMPTY

    @property
    def is_void(self) -> bool:
        """Whether there is nothing to remember: no offset, no member, and no record of it."""
        if self.offsets or self.members.pending or self.has_members:
            return False
        return self.members.protocol_type is None if self.consumer is None else self.consumer.epoch == 0

    def forgetting(self) -> list[Record]:
        """The records that forget it, and all that it committed."""
        records = [offset_record(self.group_id, topic, index, None) for topic, index, _ in self.offsets]
        if self.consumer is not None:
            return records + self.consumer.tombstones()
        return records + self.forgetting_classic()

    def forgetting_classic(self) -> list[Record]:
        """The record that forgets it as a classic group, if one was ever written."""
        return [] if self.members.protocol_type is None else [Record(group_key(self.group_id), None)]

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member consumes the topic, so that its offsets are not to be touched."""
        if self.consumer is not None:
            return self.consumer.is_subscribed_to(topic)
        return checks.is_subscribed(self.members, topic)

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, api_version: int, now_ms: int
    ) -> None:
        """Raise PeerError unless this one may commit."""
        if self.consumer is not None:
            self.consumer.check_commit(member_id, instance_id, generation, api_version=api_version)
        else:
            checks.check_commit(self.members, member_id, instance_id, generation, now_ms)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise PeerError unless this one may ask for the offsets; a classic group shows them to everybody."""
        if self.consumer is not None:
            self.consumer.check_fetch(member_id, member_epoch)

    def check_deletion(self) -> None:
        """Raise NON_EMPTY_GROUP while it has members."""
        if self.has_members:
            raise PeerError(ErrorCode.non_empty_group)

    def check_deletion_of_offsets(self) -> None:
        """Raise NON_EMPTY_GROUP where members are there that are no consumers."""
        if self.consumer is None:
            checks.check_deletion_of_offsets(self.members)

    def is_expired(self, topic: str, committed: Committed, now_ms: int, retention_ms: int) -> bool:
        """Whether nobody needs an offset any more (KIP-211; ClassicGroup and ConsumerGroup.offsetExpirationCondition)."""
        since_ms = committed.commit_ms
        if self.consumer is not None:
            if self.consumer.is_subscribed_to(topic):
                return False
        elif self.members.protocol_type is not None:
            if self.members.state is ClassicState.EMPTY:
                since_ms = self.members.state_ms
            elif self.members.state is not ClassicState.STABLE or checks.is_subscribed(self.members, topic):
                return False
        if committed.expire_ms != NO_EXPIRY:
            return now_ms >= committed.expire_ms
        return now_ms - since_ms >= retention_ms
