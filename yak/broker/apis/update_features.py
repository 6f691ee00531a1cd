"""UpdateFeatures (key 57, v0-2): checks an update of feature levels, of which each feature has exactly one.

v1: dry run, and kinds of upgrade. v2: one error for all features. The errors are those of Kafka's FeatureControlManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from yak.acls.bindings import Operation
from yak.broker.call import Call, Now, Outcome
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 57, "UpdateFeatures", range(3)
ABSENT = ("other feature levels: INVALID_UPDATE_VERSION; each feature supports only its current level",)

FEATURES: Final[Mapping[str, int]] = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "transaction.version": 2,
}
"""Kafka's features that YAK has, at the level that is finalized: KIP-966's eligible leaders, KIP-848's groups, and KIP-890's
transactions."""

_UPGRADE, _UNSAFE_DOWNGRADE = 1, 3
_LAST_VERSION_WITH_RESULTS = 1


def handle(broker: Broker, call: Call) -> Outcome:
    """Accept an update to the present levels, and refuse any other as a whole."""
    try:
        broker.authorization.check_cluster(call, Operation.ALTER)
    except PeerError as error:
        return Now({"error_code": error.error_code, "error_message": error.message, "results": []})
    updates = call.request.feature_updates
    for update in updates:
        reason = _reason_refused(broker, update)
        if reason is not None:
            message = (
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}"
            )
            return Now({"error_code": ErrorCode.invalid_update_version, "error_message": message, "results": []})
    results = updates if call.version <= _LAST_VERSION_WITH_RESULTS else ()
    return Now(
        {
            "error_code": ErrorCode.none,
            "error_message": None,
            "results": [
                {"feature": update.feature, "error_code": ErrorCode.none, "error_message": "NONE"} for update in results
            ],
        }
    )


def _reason_refused(broker: Broker, update: Any) -> str | None:
    if not _UPGRADE <= getattr(update, "upgrade_type", _UPGRADE) <= _UNSAFE_DOWNGRADE:
        return "The controller does not support the given upgrade type."
    if update.max_version_level < 0:
        return "A feature version cannot be less than 0."
    level = FEATURES.get(update.feature)
    if level is None:
        return f"Broker {broker.node_id} does not support this feature."
    if update.max_version_level != level:
        return f"Broker {broker.node_id} only supports versions {level}-{level}."
    return None
