"""TxnOffsetCommit (key 28, v0-6): store a group's offsets in a transaction; answered when their records are committed.

The offsets are pending until the transaction coordinator ends the transaction with a marker. v2: the leader epoch. v3:
flexible, and the member, which fences a producer whose consumer has left the generation (KIP-447). v4: the client knows
ABORTABLE_TRANSACTION. v5: the partition of `__consumer_offsets` joins the transaction here (KIP-890). v6: topic ids, and
the errors GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.apis.offset_commit import (
    Commit,
    check_topics,
    has_existing,
    partitions_by_id,
    with_error,
    with_error_for_all,
)
from yak.broker.call import Call, Fields, Now, Slices
from yak.broker.delayed_answers import answer_when_safe
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.coordination.runtime import Then

KEY, NAME, VERSIONS = 28, "TxnOffsetCommit", range(7)

_LOADING_VERSION = 2
_OLD_PRODUCE = 10
_LIKE_PRODUCE = {4: 11, 5: 12, 6: 12}
"""The version of Produce whose clients know the same about transactions (KIP-890)."""
_BY_ID_VERSION = 6


def slices(broker: Broker, call: Call) -> Slices:
    """Check each offset, the transaction, and then the member, and append the offsets to the transaction.

    Kafka verifies the transaction before the group (GroupCoordinatorService.commitTransactionalOffsets).
    """
    request, authorization = call.request, broker.authorization
    try:
        authorization.check(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        authorization.check(call, Operation.READ, ResourceType.GROUP, request.group_id)
    except PeerError as refusal:
        return Now(with_error_for_all(call, refusal.error_code))
    commits: list[Commit] = []
    fields = yield from check_topics(broker, call, commits, by_id=call.version >= _BY_ID_VERSION)
    if not has_existing(fields):
        return Now(fields)

    def commit(then: Then) -> Fields:
        try:
            _commit(broker, call, commits, then)
        except PeerError as refusal:
            then(refusal.error_code)
        return fields

    def refused(error_code: ErrorCode) -> Fields:
        if error_code == ErrorCode.coordinator_load_in_progress and call.version < _LOADING_VERSION:
            # producers before 2.0 may crash at it (KAFKA-7296)
            error_code = ErrorCode.coordinator_not_available
        return with_error(fields, error_code)

    return answer_when_safe(broker, call, commit, refused)


def _commit(broker: Broker, call: Call, commits: list[Commit], then: Then, *, is_verified: bool = False) -> None:
    request, coordinator = call.request, broker.group_coordinator
    coordinated = coordinator.of(request.group_id)
    producer = request.producer_id, request.producer_epoch
    if not is_verified:
        transactional, partition = broker.leader_appends.transactional, coordinated.partition
        version = _LIKE_PRODUCE.get(call.version, _OLD_PRODUCE)
        code = transactional.verify(partition, producer, version, request.transactional_id)
        if code is None:
            verified = partial(_verified, broker, call, commits, then)
            transactional.wait(partition, request.producer_id, verified)
            return
        if code != ErrorCode.none:
            raise PeerError(_as_coordinator(code))
    generation = getattr(request, "generation_id", -1)
    group = coordinated.shard.groups.get(request.group_id)
    if group is not None:
        member_id, instance_id = getattr(request, "member_id", ""), getattr(request, "group_instance_id", None)
        group.check_transactional_commit(
            member_id,
            instance_id,
            generation,
            partitions_by_id(broker, commits),
            knows_stale_epochs=call.version >= _BY_ID_VERSION,
        )
    elif generation >= 0:
        raise PeerError(
            ErrorCode.group_id_not_found if call.version >= _BY_ID_VERSION else ErrorCode.illegal_generation
        )
    else:
        group = coordinated.shard.ensure(request.group_id)
    if commits:
        # no marker would ever end those of producer id -1 (OffsetMetadataManager.commitTransactionalOffset)
        coordinator.commit(coordinated, group, commits, then, producer if request.producer_id >= 0 else None)
    else:
        coordinated.shard.drop_if_void(group)
        then(ErrorCode.none)


def _verified(broker: Broker, call: Call, commits: list[Commit], then: Then, code: ErrorCode) -> None:
    """The transaction coordinator's answer came: commit, or refuse."""
    if code != ErrorCode.none:
        then(_as_coordinator(code))
        return
    try:
        _commit(broker, call, commits, then, is_verified=True)
    except PeerError as refusal:
        then(refusal.error_code)


def _as_coordinator(code: ErrorCode) -> ErrorCode:
    """A retriable error of a batch, as the client of a coordinator knows it."""
    return ErrorCode.coordinator_load_in_progress if code == ErrorCode.not_enough_replicas else code
