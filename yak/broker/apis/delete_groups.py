"""DeleteGroups (key 42, v0-3): delete groups without members, and their offsets.

v2: flexible. v3: an error message, which Kafka has for streams groups only. The answer is sent when the deletions are
committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Fields, Later, Now, Slices
from yak.broker.delayed_answers import DelayedAnswer
from yak.errors import ErrorCode, PeerError
from yak.protocol.pace import Pace

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 42, "DeleteGroups", range(4)

_ELEMENTS_OF_A_GROUP = 10
"""A deletion appends a batch, which takes as long as this many elements of other requests."""


def slices(broker: Broker, call: Call) -> Slices:
    """Delete the groups in slices; the answer is sent after the last slice."""
    results: dict[str, ErrorCode] = {}
    names = list(dict.fromkeys(call.request.groups_names))
    waiting = DelayedAnswer(
        broker.purgatory, call, broker.config.offsets_commit_timeout_ms, lambda: Now(_answer(names, results))
    )
    pace = Pace()
    for group_id in names:
        try:
            broker.authorization.check(call, Operation.DELETE, ResourceType.GROUP, group_id)
            _delete(broker, group_id, names, results, waiting)
        except PeerError as refusal:
            results[group_id] = refusal.error_code
        if pace.is_over(_ELEMENTS_OF_A_GROUP) and group_id != names[-1]:
            yield
    if len(results) == len(names):
        return Now(_answer(names, results))
    return Later(waiting)


def _delete(
    broker: Broker, group_id: str, names: list[str], results: dict[str, ErrorCode], waiting: DelayedAnswer
) -> None:
    coordinator = broker.group_coordinator
    coordinated = coordinator.of(group_id, may_be_empty=True)
    group = coordinated.shard.groups.get(group_id)
    if group is None:
        raise PeerError(ErrorCode.group_id_not_found)
    if group.has_members:
        raise PeerError(ErrorCode.non_empty_group)

    def then(error_code: ErrorCode) -> None:
        results[group_id] = error_code
        if len(results) == len(names):
            waiting.complete(_answer(names, results))

    coordinator.delete(coordinated, group, group.forgetting(), then, ErrorCode.group_id_not_found)


def _answer(names: list[str], results: dict[str, ErrorCode]) -> Fields:
    return {
        "results": [
            {"group_id": group_id, "error_code": results.get(group_id, ErrorCode.coordinator_not_available)}
            for group_id in names
        ]
    }
