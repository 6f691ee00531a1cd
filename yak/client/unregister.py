"""Unregisters a broker: UnregisterBroker (key 64, KIP-631), for which librdkafka has no call."""

from typing import Final

from yak.client.errors import Change
from yak.client.raw_connection import call_change
from yak.errors import YakError
from yak.ids import NodeId

_UNREGISTER_BROKER: Final = 64, 0
INVALID_REQUEST: Final = 42
NOT_REGISTERED: Final = 102


def unregister_broker(address: str, node_id: NodeId, *, timeout_s: float) -> None:
    """Send the request to the broker at `address`, which may be any broker.

    Raises Unreachable when it cannot be reached, YakError (`timed-out`) when it does not answer, YakError (`broker-alive`,
    `unknown-broker`, `not-unregistered`) when it refuses.
    """
    change = Change(f"broker {node_id} was", "unregistered", "yak brokers list")
    what = change.not_made
    answer = call_change(address, _UNREGISTER_BROKER, {"broker_id": node_id}, change, timeout_s)
    why = answer.error_message or answer.error_code.name
    if answer.error_code == INVALID_REQUEST:
        raise YakError("broker-alive", what, why=why, try_=("stop it first",))
    if answer.error_code == NOT_REGISTERED:
        raise YakError("unknown-broker", f"broker {node_id} is not registered", why=why, try_=("yak brokers list",))
    if answer.error_code:
        raise YakError("not-unregistered", what, why=why, try_=("yak cluster",))
