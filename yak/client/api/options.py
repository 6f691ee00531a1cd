"""The options of producers and consumers as types; `Producer` and `Consumer` explain them."""

from collections.abc import Mapping
from typing import Any, TypedDict

from yak.client.api.consumer import Assignor, GroupProtocol
from yak.client.api.places import OffsetReset
from yak.client.api.producer import Acks, Compression
from yak.client.api.serde import Serde


class ProducerOptions(TypedDict, total=False):
    """The keyword arguments of `Producer`."""

    acks: Acks
    compression: Compression
    linger_ms: float | None
    delivery_timeout: float
    keys: Serde
    values: Serde
    client_id: str
    config: Mapping[str, Any] | None


class ConsumerOptions(TypedDict, total=False):
    """The keyword arguments of `Consumer`."""

    group_id: str | None
    auto_offset_reset: OffsetReset
    auto_commit: bool
    read_committed: bool
    group_instance_id: str | None
    group_protocol: GroupProtocol
    assignor: Assignor
    timeout: float
    keys: Serde
    values: Serde
    client_id: str
    config: Mapping[str, Any] | None
