"""An entity that has quotas, and its name in the metadata: `user=ann,client-id=<default>`.

An entity is a user, a client id, both, or an ip; a name of None is the default for all that have no quota of their own.
The characters that the name in the metadata needs for itself are escaped as in a URL (Kafka's Sanitizer).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias
from urllib.parse import unquote

from yak.quotas.quota_types import ENTITY_TYPES

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(type, name) pairs in the order of `ENTITY_TYPES`, each type once."""

_DEFAULT: Final = "<default>"
_ESCAPES: Final = str.maketrans({"%": "%25", ",": "%2C", "=": "%3D", "<": "%3C"})


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """The entity of these parts, in its order."""
    return tuple(sorted(parts, key=lambda part: ENTITY_TYPES.index(part[0])))


def encode_entity(entity: Entity) -> str:
    """The name of an entity in the metadata."""
    return ",".join(f"{kind}={_DEFAULT if name is None else name.translate(_ESCAPES)}" for kind, name in entity)


def decode_entity(text: str) -> Entity:
    """The entity that `encode_entity` wrote."""
    parts = (part.split("=", 1) for part in text.split(","))
    return tuple((kind, None if name == _DEFAULT else unquote(name)) for kind, name in parts)
