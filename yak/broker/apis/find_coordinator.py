"""FindCoordinator (key 10, v0-6): there are no consumer groups or transactions yet, and this says so.

v1: key types. v3: flexible. v4: several keys. The refusal is COORDINATOR_NOT_AVAILABLE with words: consumers that only
assign partitions ask for a coordinator too and must go on undisturbed, which any other code would prevent in librdkafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.call import Call, Fields, Now, Outcome
from yak.errors import ErrorCode

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 10, "FindCoordinator", range(7)
ABSENT = ("consumer groups, transactions and share groups: every key is refused with COORDINATOR_NOT_AVAILABLE",)

_SEVERAL_KEYS_VERSION = 4
_WORDS = ("consumer groups", "transactions", "share groups")


def handle(broker: Broker, call: Call) -> Outcome:
    """Refuse every key in words."""
    del broker
    request = call.request
    key_type = getattr(request, "key_type", 0)
    refusal: Fields = {
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": ErrorCode.invalid_request,
        "error_message": f"unknown coordinator key type {key_type}",
    }
    if 0 <= key_type < len(_WORDS):
        refusal["error_code"] = ErrorCode.coordinator_not_available
        refusal["error_message"] = (
            f"{_WORDS[key_type]} are not served by this version of YAK; assign partitions instead"
        )
    if call.version >= _SEVERAL_KEYS_VERSION:
        return Now({"coordinators": [{"key": key, **refusal} for key in request.coordinator_keys]})
    return Now(refusal)
