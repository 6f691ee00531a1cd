"""Reading a record's JSON payload field by field, and the text forms of node lists and ISRs."""

import uuid
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from yak.ids import BrokerEpoch, NodeId


class BadRecord(Exception):
    """A metadata record this broker cannot read: damaged, or written by a newer version."""


class IsrMember(NamedTuple):
    """A member of an ISR under one broker epoch: a restarted broker is another member (KIP-903)."""

    node_id: NodeId
    broker_epoch: BrokerEpoch


@lru_cache(maxsize=4096)
def parse_nodes(text: str) -> tuple[NodeId, ...]:
    """`1,2,3` as node ids; raises ValueError."""
    return tuple(int(part) for part in text.split(",")) if text else ()


@lru_cache(maxsize=4096)
def parse_isr(text: str) -> tuple[IsrMember, ...]:
    """`1@17,2@40` as ISR members; raises ValueError."""
    if not text:
        return ()
    pairs = [part.split("@") for part in text.split(",")]
    return tuple(IsrMember(int(node), int(epoch)) for node, epoch in pairs)


@lru_cache(maxsize=4096)
def nodes_of(members: tuple[IsrMember, ...]) -> tuple[NodeId, ...]:
    """The node ids of members, in their order."""
    return tuple(node_id for node_id, _broker_epoch in members)


def format_nodes(nodes: tuple[NodeId, ...]) -> str:
    """The reverse of `parse_nodes`."""
    return ",".join(map(str, nodes))


def format_isr(isr: Iterable[tuple[NodeId, BrokerEpoch]]) -> str:
    """The reverse of `parse_isr`."""
    return ",".join(f"{node_id}@{broker_epoch}" for node_id, broker_epoch in isr)


class Fields:
    """A payload read field by field, each with its type; every mismatch is a `BadRecord` that names the field."""

    __slots__ = ("_payload", "_where")

    def __init__(self, payload: object, where: str) -> None:
        if not isinstance(payload, Mapping):
            raise BadRecord(f"{where}: the payload is not a JSON object")
        self._payload = payload
        self._where = where

    def integer(self, name: str, *, minimum: int = 0) -> int:
        """A whole number of at least `minimum`."""
        value = self._payload.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise BadRecord(f"{self._where}: {name} is {value!r}, not a number of at least {minimum}")
        return value

    def text(self, name: str) -> str:
        """A string."""
        value = self._payload.get(name)
        if not isinstance(value, str):
            raise BadRecord(f"{self._where}: {name} is {value!r}, not a string")
        return value

    def optional_text(self, name: str) -> str | None:
        """A string, or None when null or absent."""
        return None if self._payload.get(name) is None else self.text(name)

    def flag(self, name: str) -> bool:
        """A truth value, false when absent."""
        value = self._payload.get(name, False)
        if not isinstance(value, bool):
            raise BadRecord(f"{self._where}: {name} is {value!r}, not true or false")
        return value

    def id(self, name: str) -> uuid.UUID:
        """A UUID."""
        try:
            return uuid.UUID(self.text(name))
        except ValueError as error:
            raise BadRecord(f"{self._where}: {name} is not a UUID") from error

    def nodes(self, name: str) -> tuple[NodeId, ...]:
        """Node ids."""
        try:
            return parse_nodes(self.optional_text(name) or "")
        except ValueError as error:
            raise BadRecord(f"{self._where}: {name} is not a list of node ids") from error

    def isr(self, name: str) -> tuple[IsrMember, ...]:
        """ISR members."""
        try:
            return parse_isr(self.optional_text(name) or "")
        except ValueError as error:
            raise BadRecord(f"{self._where}: {name} is not a list of node@epoch") from error

    def ids(self, name: str) -> tuple[uuid.UUID, ...]:
        """UUIDs in one text, by comma; none when absent."""
        try:
            return tuple(uuid.UUID(part) for part in (self.optional_text(name) or "").split(",") if part)
        except ValueError as error:
            raise BadRecord(f"{self._where}: {name} is not a list of UUIDs") from error

    def texts(self, name: str) -> Mapping[str, str]:
        """A map of string to string."""
        value = self._payload.get(name)
        if not isinstance(value, Mapping) or not all(isinstance(v, str) for v in value.values()):
            raise BadRecord(f"{self._where}: {name} is not a map of strings")
        return dict(sorted(value.items()))

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._payload.get(name) is not None

    def items(self, name: str) -> list["Fields"]:
        """A list of objects; cjson writes an empty one as `{}`."""
        value = self._payload.get(name)
        if value == {}:
            return []
        if not isinstance(value, list):
            raise BadRecord(f"{self._where}: {name} is not a list")
        return [Fields(item, f"{self._where}: {name}[{index}]") for index, item in enumerate(value)]
