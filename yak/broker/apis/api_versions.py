"""ApiVersions (key 18, v0-5): the APIs and versions that this broker serves.

v1: throttle time. v3: flexible, client software, features; the answer's header stays v0 (KIP-511). v4: features with
minimum 0, of which there are none. v5: the cluster and the broker that the client wants to reach (KIP-1242).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from yak.broker.apis.quorum import BETWEEN_BROKERS, OF_A_QUORUM
from yak.broker.apis.update_features import FEATURES
from yak.broker.call import Call, Fields, Now, Outcome
from yak.broker.kafka_release import KafkaRelease
from yak.errors import ErrorCode
from yak.lifecycle.failure_watch import WATCH_SOFTWARE

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 18, "ApiVersions", range(6)
ABSENT = ("Kafka's other features, such as metadata.version: they are not listed",)

ADVERTISED_MIN = {0: 0}
"""Produce v0 to v2 are advertised but refused: otherwise older librdkafka sends gzip uncompressed (KAFKA-18659)."""

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_LENGTH_MAX = 32_767
"""Kafka's longest string: each connection keeps its client's name and version."""
_OFFSET = re.compile(r"[0-9]{1,19}")
_REFUSED_MAX = 3
_SOFTWARE_VERSION = 3
_TARGET_VERSION = 5
_NO_NODE = -1


def handle(broker: Broker, call: Call) -> Outcome:
    """Answer with the table, or with INVALID_REQUEST alone if the client's software name or version is malformed (KIP-511).

    REBOOTSTRAP_REQUIRED if the client wants to reach another cluster or broker: this one has got its address. A liveness
    probe of another broker is answered once the image is as new as the probe's (`yak.lifecycle.failure_watch`).
    """
    if call.version >= _SOFTWARE_VERSION:
        request = call.request
        name, version = request.client_software_name, request.client_software_version
        target = (request.cluster_id, request.node_id) if call.version >= _TARGET_VERSION else (None, _NO_NODE)
        is_short = max(len(name), len(version)) <= _SOFTWARE_LENGTH_MAX
        is_named = is_short and _SOFTWARE_NAME.fullmatch(name) and _SOFTWARE_NAME.fullmatch(version)
        if not is_named or (target[0] is None) != (target[1] == _NO_NODE):
            return Now({"error_code": ErrorCode.invalid_request, "api_keys": []})
        if target[0] is not None and target != (broker.image.cluster_id, broker.node_id):
            return Now({"error_code": ErrorCode.rebootstrap_required, "api_keys": []})
        is_probe = name == WATCH_SOFTWARE and call.connection.proven is not None
        if is_probe and _OFFSET.fullmatch(version) and int(version) > broker.image.offset:
            return broker.leader_requests.answer_probe(call, int(version), lambda: _served(broker, call))
        call.connection.client_software = f"{name} {version}"
    return _served(broker, call)


def _served(broker: Broker, call: Call) -> Outcome:
    release = _release_of(broker, call)
    features = sorted(FEATURES.items()) if release is None or release.has_features else []
    return Now(
        {
            "error_code": ErrorCode.none,
            "api_keys": _ranges(broker, call),
            "supported_features": [
                {"name": name, "min_version": level, "max_version": level} for name, level in features
            ],
            "finalized_features_epoch": broker.image.offset,
            "finalized_features": [
                {"name": name, "max_version_level": level, "min_version_level": level} for name, level in features
            ],
        }
    )


def refuse_version(broker: Broker, call: Call) -> Outcome:
    """The v0 answer to an ApiVersions version that is not served.

    It gives at most v3 as the maximum of key 18, below any refused version: else a client that retries with it may never
    stop.
    """
    release = _release_of(broker, call)
    ranges = [] if release is not None and not release.falls_back else _ranges(broker, call)
    for each in ranges:
        if each["api_key"] == KEY:
            each["max_version"] = min(each["max_version"], _REFUSED_MAX)
    return Now({"error_code": ErrorCode.unsupported_version, "api_keys": ranges})


def _release_of(broker: Broker, call: Call) -> KafkaRelease | None:
    """The Kafka release that this client gets; None: YAK's own versions."""
    release = broker.as_kafka
    return release if release is not None and release.limits(call) else None


def _ranges(broker: Broker, call: Call) -> list[Fields]:
    from yak.broker.apis import APIS

    hidden = BETWEEN_BROKERS if broker.quorum is not None else BETWEEN_BROKERS | OF_A_QUORUM
    release = _release_of(broker, call)
    found = []
    for api in sorted(APIS, key=lambda api: int(api.KEY)):
        highest = api.VERSIONS.stop - 1
        if release is not None:
            highest = min(highest, release.max_versions.get(api.KEY, -1))
        if api.KEY not in hidden and highest >= api.VERSIONS.start:
            lowest = ADVERTISED_MIN.get(api.KEY, api.VERSIONS.start)
            found.append({"api_key": api.KEY, "min_version": lowest, "max_version": highest})
    return found
