"""Valid topic names: Kafka's rules (Topic.java), which also make a name safe as a directory's."""

import itertools
import re
import uuid
from collections.abc import Collection
from operator import add
from typing import Final

from yak import errors, ids  # ErrorCode is resolved on use: commands and `yak ui` import this without kio
from yak.errors import PeerError
from yak.limits import TOPIC_NAME_LENGTH_MAX
from yak.plain_text import one_line

INTERNAL_TOPICS: Final = ids.INTERNAL_TOPICS
METADATA_TOPIC: Final = "__cluster_metadata"
"""Kafka's metadata log: no client may create a topic of this name (ControllerApis.createTopics)."""
METADATA_TOPIC_ID: Final = uuid.UUID(int=1)
"""Its topic id (Kafka's Uuid.METADATA_TOPIC_ID)."""
_SEPARATOR: Final = re.compile(r"[._]")
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def validate_topic_name(name: str) -> None:
    """Raise PeerError(INVALID_TOPIC_EXCEPTION) with a message unless a topic may have this name."""
    reason = _fault(name)
    if reason:
        raise PeerError(
            errors.ErrorCode.invalid_topic_exception, f"Topic name is invalid: '{one_line(name[:100])}' {reason}"
        )


def _fault(name: str) -> str:
    if not name:
        return "is empty"
    if name in (".", ".."):
        return "cannot be '.' or '..'"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"is {len(name)} characters long, over {TOPIC_NAME_LENGTH_MAX}"
    if not _LEGAL.fullmatch(name):
        return "has characters other than ASCII letters, digits, '.', '_' and '-'"
    return ""


def collision_key(name: str) -> str:
    """Equal for two names that collide: metric names write '.' as '_', so Kafka refuses to have both."""
    return name.replace(".", "_")


def find_collision(name: str, existing: Collection[str]) -> str | None:
    """Another existing topic that collides with `name`, or None.

    The names that would collide are looked up if they are fewer than the topics: a request may create a thousand topics.
    """
    separators = name.count(".") + name.count("_")
    if not separators:
        return None
    if 1 << separators <= len(existing):
        first, *rest = _SEPARATOR.split(name)
        spelled = (first + "".join(map(add, chosen, rest)) for chosen in itertools.product("._", repeat=separators))
        return next((other for other in spelled if other != name and other in existing), None)
    key = collision_key(name)
    return next((other for other in existing if other != name and collision_key(other) == key), None)


def refuse_collision(name: str, existing: Collection[str]) -> None:
    """Raise PeerError(INVALID_TOPIC_EXCEPTION) when `name` collides with an existing topic."""
    other = find_collision(name, existing)
    if other is not None:
        raise PeerError(
            errors.ErrorCode.invalid_topic_exception, f"Topic '{name}' collides with existing topic: {other}"
        )


def is_internal(name: str) -> bool:
    """Whether the cluster keeps its own state in this topic."""
    return name in INTERNAL_TOPICS
