"""The quotas that can be set, by Kafka's names (its QuotaConfigs), and the types in which throttling is counted."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from yak.view.formats import group_digits

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)
"""In the order in which an entity names them."""


class QuotaType(StrEnum):
    """What a quota limits; the value is the name of its config."""

    PRODUCE = "producer_byte_rate"
    """Bytes a second of Produce requests (KIP-13)."""
    FETCH = "consumer_byte_rate"
    """Bytes a second of Fetch answers (KIP-13)."""
    REQUEST = "request_percentage"
    """Processor time of requests, in percent of one thread (KIP-124)."""
    CONTROLLER_MUTATION = "controller_mutation_rate"
    """Partitions created and deleted a second (KIP-599)."""
    CONNECTION = "connection_creation_rate"
    """Connections accepted a second from an ip (KIP-612)."""


USER_QUOTAS: Final = (QuotaType.PRODUCE, QuotaType.FETCH, QuotaType.REQUEST, QuotaType.CONTROLLER_MUTATION)
"""Quotas of users and client ids."""
IP_QUOTAS: Final = (QuotaType.CONNECTION,)
FRACTIONAL: Final = (QuotaType.REQUEST, QuotaType.CONTROLLER_MUTATION)
"""Quotas that may have a fraction (the DOUBLE configs of Kafka's QuotaConfigs)."""

THROTTLE_MS_MAX: Final = 2**31 - 1
"""What `throttle_time_ms` can express: a limit may be so small that the time would be infinite."""


def format_quota(name: str, value: float) -> str:
    """The value of a quota with its unit: `1 000 000 B/s`, `50%`, `20/s`."""
    if name in (QuotaType.PRODUCE, QuotaType.FETCH):
        return f"{group_digits(int(value))} B/s"
    if name == QuotaType.REQUEST:
        return f"{value:g}%"
    return f"{value:g}/s"
