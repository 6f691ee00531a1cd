"""Changes configs, for AlterConfigs and IncrementalAlterConfigs.

Each resource is validated by itself; a refused one changes nothing, and the others are applied. Accepted changes are in
force when the answer is sent: they are in the metadata log and on this broker's disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Fields, Now, Outcome, error_fields
from yak.broker.config_resources import TOPIC, GroupResource, Resource, TopicResource, check_resource, resource_of
from yak.broker.delayed_metadata_changes import DelayedMetadataChanges, from_newest_image
from yak.cluster.topic_changes import plan_alter_configs
from yak.config.incremental import IncrementalOp
from yak.config.ssl_configs import of_one_listener
from yak.errors import ErrorCode, PeerError
from yak.ports.metadata_store import StoreRequest

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_TIMEOUT_MS = 10_000
_NewSettings: TypeAlias = Callable[[Resource, Any], dict[str, str]]


def change_configs(broker: Broker, call: Call, new_settings: _NewSettings, *, replaces: bool) -> Outcome:
    """Answer a request: `new_settings(resource, requested)` returns all new overrides of the resource, or raises
    PeerError.

    The store gets what the request names, also where this broker's image has it already: the image may be older than a
    change that another broker has acknowledged. Only a request that `replaces` removes overrides that it does not name.
    One that changes a list, which another broker may have changed, or names a topic that the image lacks, needs the newest
    image.
    """
    changes_lists = any(_changes_list(config) for requested in call.request.resources for config in requested.configs)
    may_see, topics = broker.authorization.may_see, broker.image.topics
    lacks = any(
        requested.resource_type == TOPIC
        and requested.resource_name not in topics
        and may_see(call, Operation.ALTER_CONFIGS, ResourceType.TOPIC, requested.resource_name)
        for requested in call.request.resources
    )
    begin = partial(_change, new_settings=new_settings, replaces=replaces)
    return from_newest_image(broker, call, _TIMEOUT_MS, begin, is_needed=changes_lists or lacks)


def _change(broker: Broker, call: Call, *, new_settings: _NewSettings, replaces: bool) -> Outcome:
    resources = call.request.resources

    def build(results: dict[Any, PeerError | None]) -> Outcome:
        return Now({"responses": [_answer(requested, results.get(index)) for index, requested in enumerate(resources)]})

    waiting = DelayedMetadataChanges(broker, call, _TIMEOUT_MS, build)
    times = Counter((requested.resource_type, requested.resource_name) for requested in resources)
    for index, requested in enumerate(resources):
        is_repeated = times[(requested.resource_type, requested.resource_name)] > 1
        waiting.change_from_image(
            index, partial(_plan, broker, call, requested, new_settings, replaces=replaces, is_repeated=is_repeated)
        )
    return waiting.outcome()


def _plan(
    broker: Broker, call: Call, requested: Any, new_settings: _NewSettings, *, replaces: bool, is_repeated: bool
) -> Sequence[StoreRequest]:
    """The change of one resource, by the present image. Raises PeerError."""
    key = (requested.resource_type, requested.resource_name)
    check_resource(broker, call, Operation.ALTER_CONFIGS, *key)
    if is_repeated:
        raise PeerError(ErrorCode.invalid_request, "a resource is named more than once")
    if key == (TOPIC, ""):
        raise PeerError(ErrorCode.invalid_request, "topic configs need a topic name")
    resource = resource_of(broker, *key)
    settings = new_settings(resource, requested)
    if isinstance(resource, TopicResource | GroupResource):
        resource.check(settings)
    if call.request.validate_only or not (requested.configs or replaces):
        return ()
    if settings == dict(resource.overrides) and any(of_one_listener(config.name) for config in requested.configs):
        broker.listener_configs.read_again()  # as in Kafka, the same path reads a file that changed
    named = {config.name: settings.get(config.name) for config in requested.configs}
    expected = {
        config.name: resource.overrides.get(config.name) for config in requested.configs if _changes_list(config)
    }
    return plan_alter_configs(broker.image, resource.kind, resource.name, named, expected, replace=replaces)


def _changes_list(config: Any) -> bool:
    """Whether the new value is computed from the present one. AlterConfigs has no operations."""
    return getattr(config, "config_operation", IncrementalOp.SET) in (IncrementalOp.APPEND, IncrementalOp.SUBTRACT)


def _answer(requested: Any, error: PeerError | None) -> Fields:
    return {**error_fields(error), "resource_type": requested.resource_type, "resource_name": requested.resource_name}
