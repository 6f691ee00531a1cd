"""The message class of each API version: kio's, or one of Kafka 4.4 that kio does not have yet."""

from collections.abc import Mapping
from typing import Final

import kio.index
from kio.schema.index import api_key_map, schema_name_map

from yak.protocol.schema_fields import EntityClass

KAFKA_4_4: Final[Mapping[int, int]] = {18: 5, 28: 6, 42: 3}
"""The version of Kafka 4.4 by API key (`yak.protocol.kafka_4_4`); a test says when kio has it."""


def versions_of(api_key: int) -> range:
    """The versions with classes, without importing them; empty for an unknown API."""
    name = api_key_map.get(api_key)
    if name is None:
        return range(0)
    versions = schema_name_map[name]
    return range(min(versions), max(*versions, KAFKA_4_4.get(api_key, 0)) + 1)


def load_request_schema(api_key: int, version: int) -> EntityClass:
    """The class of a request. Raises kio's KioIndexError when there is none."""
    if KAFKA_4_4.get(api_key) == version:
        from yak.protocol.kafka_4_4 import REQUESTS

        return REQUESTS[api_key]
    return kio.index.load_request_schema(api_key, version)


def load_response_schema(api_key: int, version: int) -> EntityClass:
    """The class of a response. Raises as `load_request_schema`."""
    if KAFKA_4_4.get(api_key) == version:
        from yak.protocol.kafka_4_4 import RESPONSES

        return RESPONSES[api_key]
    return kio.index.load_response_schema(api_key, version)
