"""The quotas that are set, and which of them applies to a client (the precedence of Kafka's ClientQuotaManager).

From the first to the last that is set: the quota of the user with the client id, of the user with any client id, of the
user; of any user with the client id, of any user with any client id, of any user; of the client id, of any client id.

A quota of a user with client ids is used by each client id of the user for itself, one of a user by all its clients
together, and one of a client id by all its users together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from yak.quotas.entity import decode_entity
from yak.quotas.quota_types import CLIENT_ID, IP, USER, QuotaType
from yak.security.hosts import canonical_host


class Part(Enum):
    """A part of an entity that names no user or client id."""

    ABSENT = 0
    DEFAULT = 1


Name: TypeAlias = str | Part
Key: TypeAlias = tuple[Name, Name]
"""User and client id."""
ABSENT: Final = Part.ABSENT
DEFAULT: Final = Part.DEFAULT
_KNOWN: Final = frozenset(QuotaType)


class AppliedQuota(NamedTuple):
    """The quota that applies to a client, and whose use counts: `shared` is the same for all that share it."""

    limit: float
    shared: Key


class QuotaTable:
    """The quotas of an image, by type."""

    def __init__(self, quotas: Mapping[str, Mapping[str, str]]) -> None:
        self._limits: dict[QuotaType, dict[Key, float]] = {}
        self._ips: dict[Name, float] = {}
        for text, values in quotas.items():
            entity = {kind: DEFAULT if name is None else name for kind, name in decode_entity(text)}
            for quota, value in values.items():
                if quota not in _KNOWN or not float(value):  # a newer YAK's; an older one stored 1e-7 as 0
                    continue
                if IP in entity:
                    ip = entity[IP]
                    self._ips[canonical_host(ip) if isinstance(ip, str) else ip] = float(value)
                else:
                    key = entity.get(USER, ABSENT), entity.get(CLIENT_ID, ABSENT)
                    self._limits.setdefault(QuotaType(quota), {})[key] = float(value)

    def __bool__(self) -> bool:
        return bool(self._limits or self._ips)

    def has(self, quota: QuotaType) -> bool:
        """Whether any user or client id has such a quota."""
        return quota in self._limits

    def find(self, quota: QuotaType, user: str, client_id: str) -> AppliedQuota | None:
        """The quota that applies to a client of this user; None for no limit."""
        limits = self._limits.get(quota)
        if limits is None:
            return None
        for key in _precedence(user, client_id):
            limit = limits.get(key)
            if limit is not None:
                return AppliedQuota(limit, _shared(key, user, client_id))
        return None

    def limit_of_ip(self, ip: str) -> float | None:
        """Connections a second that an ip may create; None for no limit."""
        return self._ips.get(canonical_host(ip), self._ips.get(DEFAULT))


def _precedence(user: str, client_id: str) -> Iterator[Key]:
    for named in (user, DEFAULT):
        if client_id:  # an empty client id has the default's quota only
            yield named, client_id
        yield named, DEFAULT
        yield named, ABSENT
    if client_id:
        yield ABSENT, client_id
    yield ABSENT, DEFAULT


def _shared(key: Key, user: str, client_id: str) -> Key:
    return ABSENT if key[0] is ABSENT else user, ABSENT if key[1] is ABSENT else client_id
