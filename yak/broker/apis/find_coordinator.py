"""FindCoordinator (key 10, v0-6): which broker coordinates a group or a transactional id.

v1: key types and error messages. v3: flexible. v4: several keys, and no message without an error; before, it is NONE
(`FindCoordinatorResponse.prepareOldResponse`). The coordinator is the leader of the key's partition of
`__consumer_offsets` or `__transaction_state`; the first request creates that topic. Keys of the share coordinator, which
only brokers look up, get INVALID_REQUEST, as from a Kafka broker without one (`KafkaApis.getCoordinator`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from yak.acls.bindings import Operation, ResourceType
from yak.broker.authorization import denial
from yak.broker.call import Call, Fields, Later, Now, Outcome
from yak.broker.delayed_answers import DelayedAnswer
from yak.broker.delayed_leader_requests import leaders_of
from yak.broker.delayed_metadata_changes import DelayedMetadataChanges
from yak.core.placement import partition_of
from yak.errors import ErrorCode, PeerError
from yak.groups.offsets import OFFSETS_TOPIC
from yak.lifecycle.liveness import is_serving
from yak.limits import GROUP_STRING_BYTES_MAX
from yak.transactions.records import TRANSACTION_TOPIC

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 10, "FindCoordinator", range(7)
ABSENT = ("share groups: keys of the share coordinator are refused with INVALID_REQUEST",)

_SEVERAL_KEYS_VERSION = 4
_GROUP, _SHARE = 0, 2
_TOPICS = {_GROUP: OFFSETS_TOPIC, 1: TRANSACTION_TOPIC}
"""The topic of each type of keys."""
_RESOURCES = {_GROUP: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
_CREATE_TIMEOUT_MS = 10_000


def handle(broker: Broker, call: Call) -> Outcome:
    """Answer with the leader of each key's partition."""
    name = _TOPICS.get(getattr(call.request, "key_type", _GROUP))
    if name is None or not any(_may_find(broker, call, key) for key in _keys(call)):
        return _answer(broker, call, None)
    if name in broker.image.topics:
        return _when_decided(broker, call, name)

    def made(results: dict[Any, PeerError | None]) -> Outcome:
        refusal = results.get(name)
        if name in broker.image.topics:
            return _when_decided(broker, call, name)
        if refusal is not None and refusal.error_code == ErrorCode.topic_already_exists:
            # another broker created it a moment ago; the image does not have it yet
            return _when_in_image(broker, call, name)
        return _answer(broker, call, refusal)

    waiting = DelayedMetadataChanges(broker, call, _CREATE_TIMEOUT_MS, made)
    waiting.change_from_image(name, partial(broker.topic_creation.plan_internal_topic, name))
    return waiting.outcome()


def _keys(call: Call) -> Sequence[str]:
    return call.request.coordinator_keys if call.version >= _SEVERAL_KEYS_VERSION else (call.request.key,)


def _may_find(broker: Broker, call: Call, key: str) -> bool:
    """Whether the client may describe the group, or the transactional id."""
    kind = _RESOURCES[getattr(call.request, "key_type", _GROUP)]
    return broker.authorization.allows(call, Operation.DESCRIBE, kind, key)


def _when_in_image(broker: Broker, call: Call, name: str) -> Outcome:
    """Answer once the image has the internal topic, which exists; with COORDINATOR_NOT_AVAILABLE if that takes long."""
    coordinator = broker.group_coordinator if name == OFFSETS_TOPIC else broker.transaction_coordinator
    awaiting = coordinator.runtime.awaiting_topic
    late, leave = partial(_answer, broker, call, None), partial(awaiting.pop, call, None)
    waiting = DelayedAnswer(broker.purgatory, call, _CREATE_TIMEOUT_MS, late, leave)
    awaiting[call] = partial(waiting.complete_with, partial(_when_decided, broker, call, name))
    return Later(waiting)


def _when_decided(broker: Broker, call: Call, name: str) -> Outcome:
    return broker.leader_requests.answer_when_decided(
        call,
        lambda: leaders_of(topic for topic in [broker.image.topics.get(name)] if topic is not None),
        lambda: _answer(broker, call, None),
    )


def _answer(broker: Broker, call: Call, refusal: PeerError | None) -> Outcome:
    if call.version >= _SEVERAL_KEYS_VERSION:
        return Now({"coordinators": [{"key": key, **_one(broker, call, key, refusal)} for key in _keys(call)]})
    return Now(_one(broker, call, call.request.key, refusal))


def _one(broker: Broker, call: Call, key: str, refusal: PeerError | None) -> Fields:
    key_type = getattr(call.request, "key_type", _GROUP)
    name = _TOPICS.get(key_type)
    if key_type == _SHARE:
        return _refused(ErrorCode.invalid_request, "this version of YAK does not support share groups")
    if name is None:
        return _refused(ErrorCode.invalid_request, f"unknown coordinator key type {key_type}")
    if not _may_find(broker, call, key):
        denied = denial(_RESOURCES[key_type])
        return _refused(denied.error_code, denied.message)
    if len(key.encode()) > GROUP_STRING_BYTES_MAX:
        code = ErrorCode.invalid_group_id if key_type == _GROUP else ErrorCode.invalid_request
        return _refused(code, f"the key is too long: {len(key.encode())} bytes")
    if refusal is not None:
        return _refused(ErrorCode.coordinator_not_available, f"topic {name} cannot be created: {refusal.message}")
    image = broker.image
    topic = image.topics.get(name)
    if topic is None:
        return _refused(ErrorCode.coordinator_not_available, f"topic {name} is still being created; retry")
    partition = topic.partitions[partition_of(key, len(topic.partitions))]
    info = image.brokers.get(partition.leader)
    if (
        info is None
        or not is_serving(info)
        or broker.suspected_brokers.has(info.node_id)
        or broker.store_outage.is_isolated_leader(name, partition)
    ):
        return _refused(ErrorCode.coordinator_not_available, "the partition of the key has no leader now")
    endpoint = info.endpoint(call.connection.listener.name)
    if endpoint is None:
        return _refused(ErrorCode.coordinator_not_available, "the coordinator does not have this listener")
    return {
        "node_id": info.node_id,
        "host": endpoint.host,
        "port": endpoint.port,
        "error_code": ErrorCode.none,
        "error_message": "" if call.version >= _SEVERAL_KEYS_VERSION else ErrorCode.none.name.upper(),
    }


def _refused(error_code: ErrorCode, message: str) -> Fields:
    return {"node_id": -1, "host": "", "port": -1, "error_code": error_code, "error_message": message}
