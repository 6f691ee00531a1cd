"""The API versions: which exist, which are flexible (KIP-482), and which YAK may advertise.

kio knows both, but only after importing every schema module, which takes a second. So the first flexible versions are
listed here, and a test compares them with kio's `__flexible__`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kio.schema.index import api_key_map

from yak.protocol.schemas import versions_of

PRODUCE: Final = 0
FETCH: Final = 1
API_VERSIONS: Final = 18
SASL_HANDSHAKE: Final = 17
INIT_PRODUCER_ID: Final = 22
SASL_AUTHENTICATE: Final = 36
CONTROLLED_SHUTDOWN: Final = 7

API_NAMES: Final[Mapping[int, str]] = api_key_map
"""Kafka's API keys to names in snake_case, as kio spells them."""

NEVER_FLEXIBLE: Final = 1 << 15
_FIRST_FLEXIBLE_NOT_0: Final = """
    0:9 1:12 2:6 3:9 8:8 9:6 10:3 11:6 12:4 13:4 14:4 15:5 16:3 18:3 19:5 20:4 21:2 22:2 23:4 24:3 25:3 26:3 27:1
    28:3 29:2 30:2 31:2 32:4 33:2 34:2 35:2 36:2 37:2 38:2 39:2 40:2 41:2 42:2 43:2 44:1 48:1 49:1 53:1 54:1 56:2
    76:1 77:1 78:1 79:1
"""
FIRST_FLEXIBLE: Final[Mapping[int, int]] = {
    **dict.fromkeys(range(93), 0),
    **{int(key): int(version) for key, version in (pair.split(":") for pair in _FIRST_FLEXIBLE_NOT_0.split())},
    **dict.fromkeys((4, 5, 6, 7, 17, 47), NEVER_FLEXIBLE),
}
"""First version of each API whose header has tagged fields. Keys 4 to 7 were inter-broker APIs, and are gone."""


class VersionRange(NamedTuple):
    """Lowest and highest version of one API, both included."""

    minimum: int
    maximum: int


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether requests of this version have header v2; also for versions above the supported ones (for KIP-511)."""
    return api_version >= FIRST_FLEXIBLE.get(api_key, NEVER_FLEXIBLE)


def decodable_range(api_key: int) -> VersionRange | None:
    """The versions that YAK can decode and encode, or None for an unknown API."""
    versions = versions_of(api_key)
    return VersionRange(versions[0], versions[-1]) if versions else None


def is_decodable(api_key: int, api_version: int) -> bool:
    """Whether YAK can decode requests of this version."""
    return api_version in versions_of(api_key)
