"""Changes configs, for AlterConfigs and IncrementalAlterConfigs.

Each resource is validated by itself; a refused one changes nothing, and the others are applied. Accepted changes are in
force when the answer is sent: they are in the metadata log and on this broker's disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from yak.acls.bindings import Operation
from yak.broker.call import Call, Fields, Now, Outcome, error_fields
from yak.broker.config_resources import TOPIC, GroupResource, Resource, check_resource, resource_of
from yak.broker.delayed_metadata_changes import DelayedMetadataChanges, from_newest_image
from yak.cluster.topic_changes import plan_alter_configs
from yak.config.ssl_configs import of_one_listener
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_TIMEOUT_MS = 10_000
_NewSettings: TypeAlias = Callable[[Resource, Any], dict[str, str]]


def change_configs(
    broker: Broker, call: Call, new_settings: _NewSettings, *, replaces: bool, extends: bool = False
) -> Outcome:
    """Answer a request: `new_settings(resource, asked)` returns all new overrides of the resource, or raises PeerError.

    The store gets what the request names, also where this broker's image has it already: the image may be older than a
    change that another broker has acknowledged. Only a request that `replaces` removes overrides that it does not name.
    One that `extends` lists, or names a topic that the image lacks, needs the newest image.
    """
    lacks = any(
        asked.resource_type == TOPIC and asked.resource_name not in broker.image.topics
        for asked in call.request.resources
    )
    begin = partial(_change, new_settings=new_settings, replaces=replaces)
    return from_newest_image(broker, call, _TIMEOUT_MS, begin, is_needed=extends or lacks)


def _change(broker: Broker, call: Call, *, new_settings: _NewSettings, replaces: bool) -> Outcome:
    resources = call.request.resources

    def build(results: dict[Any, PeerError | None]) -> Outcome:
        return Now({"responses": [_answer(asked, results.get(index)) for index, asked in enumerate(resources)]})

    waiting = DelayedMetadataChanges(broker.metadata, broker.purgatory, call, _TIMEOUT_MS, build)
    times = Counter((asked.resource_type, asked.resource_name) for asked in resources)
    for index, asked in enumerate(resources):
        try:
            key = (asked.resource_type, asked.resource_name)
            check_resource(broker, call, Operation.ALTER_CONFIGS, *key)
            if times[key] > 1:
                raise PeerError(ErrorCode.invalid_request, "a resource is named more than once")
            if key == (TOPIC, ""):
                raise PeerError(ErrorCode.invalid_request, "topic configs need a topic name")
            resource = resource_of(broker, *key)
            settings = new_settings(resource, asked)
            if isinstance(resource, GroupResource):
                resource.check(settings)
        except PeerError as error:
            waiting.refuse(index, error)
            continue
        if call.request.validate_only:
            continue
        if settings == dict(resource.overrides) and any(of_one_listener(config.name) for config in asked.configs):
            broker.listener_configs.read_again()  # as in Kafka, the same path reads a file that changed
        named = {config.name: settings.get(config.name) for config in asked.configs}
        if named or replaces:
            waiting.change(
                index, plan_alter_configs(broker.image, resource.kind, resource.name, named, replace=replaces)
            )
    return waiting.outcome()


def _answer(asked: Any, error: PeerError | None) -> Fields:
    return {
        **error_fields(error),
        "resource_type": asked.resource_type,
        "resource_name": asked.resource_name,
    }
