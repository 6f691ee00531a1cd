"""The rows of requests and answers: a topic or a partition each, with its own error code in the answer.

An answer here is its fields as plain values, by kio's names (`yak.protocol.response_encoder`). Kafka's requests name
their rows, and answers repeat the names, so that an answer can be made from a request (AbstractRequest.getErrorResponse).
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from yak.protocol.schema_fields import EntityClass, SchemaField, plain, schema_fields
from yak.protocol.schemas import load_response_schema
from yak.protocol.versions import API_NAMES, FETCH, PRODUCE

Topic: TypeAlias = str | uuid.UUID | None
"""A topic by its name or id; None: the request is about all topics."""
Hit: TypeAlias = Callable[[Topic, int | None], bool]
"""Whether a row is meant: its topic, and its partition, or None for a topic's own row."""
Fields: TypeAlias = dict[str, Any]

METADATA: Final = 3
MESSAGE: Final = "injected by a fault rule (yak faults list)"


class _Rows(NamedTuple):
    """Where a request names topics, and inside each the partitions; None where it names topics only."""

    topics: tuple[str, ...]
    partitions: str | None


_ROWS: Final[Mapping[int, _Rows]] = {
    PRODUCE: _Rows(("topic_data",), "partition_data"),
    FETCH: _Rows(("topics",), "partitions"),
    2: _Rows(("topics",), "partitions"),  # ListOffsets
    METADATA: _Rows(("topics",), None),
    8: _Rows(("topics",), "partitions"),  # OffsetCommit
    9: _Rows(("topics", "groups"), "partition_indexes"),  # OffsetFetch, by groups from v8 on
    19: _Rows(("topics",), None),  # CreateTopics
    20: _Rows(("topics", "topic_names"), None),  # DeleteTopics
    21: _Rows(("topics",), "partitions"),  # DeleteRecords
    23: _Rows(("topics",), "partitions"),  # OffsetForLeaderEpoch
    24: _Rows(("v3_and_below_topics",), "partitions"),  # AddPartitionsToTxn; brokers alone send newer versions
    28: _Rows(("topics",), "partitions"),  # TxnOffsetCommit
    37: _Rows(("topics",), None),  # CreatePartitions
    43: _Rows(("topic_partitions",), "partitions"),  # ElectLeaders
    45: _Rows(("topics",), "partitions"),  # AlterPartitionReassignments
    47: _Rows(("topics",), "partitions"),  # OffsetDelete
    61: _Rows(("topics",), "partition_indexes"),  # DescribeProducers
    75: _Rows(("topics",), None),  # DescribeTopicPartitions
}
TOPICAL: Final = frozenset(_ROWS)
"""APIs whose answers have an error code for each topic, or for each of its partitions."""
PARTITIONED: Final = frozenset({key for key, rows in _ROWS.items() if rows.partitions} | {METADATA, 75})

_ERRORS: Final = ("error_code", "partition_error_code")
_TOPICS: Final = ("name", "topic", "topic_name")
_PARTITIONS: Final = ("partition_index", "partition", "partition_id", "index")
_ALIASES: Final = (_TOPICS, _PARTITIONS, ("user", "name"))
_REPEATED: Final = frozenset(
    {
        *_TOPICS,
        *_PARTITIONS,
        *("topic_id", "group_id", "transactional_id", "member_id", "group_instance_id", "user", "feature"),
        *("resource_type", "resource_name", "entity", "entity_type", "entity_name"),
    }
)
"""Fields of an answer that repeat those of the request."""
_OF_SCALARS: Final = (*_TOPICS, *_PARTITIONS, "group_id")
_NOTHING: Final = {"base_offset": -1, "low_watermark": -1, "producer_id": -1, "producer_epoch": -1, "leader_id": -1}
_SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "partition_responses": ("partition_data",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "results_by_partition": ("partitions",),
    "results": ("creations", "topics", "groups_names", "feature_updates", "deletions", "upsertions", "dirs"),
    "filter_results": ("filters",),
    "replica_election_results": ("topic_partitions",),
    "partition_result": ("partitions",),
    "partitions": ("partitions", "partition_indexes"),
}
"""The request's array that an answer's array is about, where its name differs."""
_READS: Final = (
    "describe",
    "list",
    "find",
    "api_versions",
    "metadata",
    "offset_fetch",
    "offset_for",
    "consumer_group_d",
)


def only_reads(api_key: int) -> bool:
    """Whether requests of an API change nothing, so that it makes no difference if one is served before it is refused."""
    return api_key == FETCH or API_NAMES[api_key].startswith(_READS)


# ----------------------------------------------------------------------------------------------------------- requests


def named_rows(api_key: int, request: Any) -> Iterator[tuple[Topic, int | None]]:
    """The topics and partitions that a request names; (None, None) for all topics."""
    rows = _ROWS.get(api_key)
    if rows is None or request is None:
        return
    found = next((array for each in rows.topics if (array := getattr(request, each, None)) is not None), None)
    if found is None:
        yield None, None
        return
    for topic in _without_groups(found):
        partitions = None if rows.partitions is None else getattr(topic, rows.partitions, None)
        if partitions is None:
            yield _topic_of(topic), None
        else:
            for each in partitions:
                yield _topic_of(topic), _partition_of(each)


def split_request(api_key: int, request: Any, hit: Hit) -> tuple[Any | None, Any | None]:
    """The request with the meant rows alone, and with the others alone; None for one without rows."""
    return _with_rows(api_key, request, hit), _with_rows(api_key, request, lambda *row: not hit(*row))


def _with_rows(api_key: int, request: Any, wanted: Hit) -> Any | None:
    rows = _ROWS[api_key]
    name = next(each for each in rows.topics if getattr(request, each, None) is not None)
    topics = []
    for topic in getattr(request, name):
        key = _topic_of(topic)
        if rows.partitions is None:
            if wanted(key, None):
                topics.append(topic)
            continue
        given = getattr(topic, rows.partitions)
        partitions = [each for each in given if wanted(key, _partition_of(each))]
        if partitions:
            topics.append(_replaced(topic, rows.partitions, type(given)(partitions)))
    return _replaced(request, name, type(getattr(request, name))(topics)) if topics else None


def _replaced(value: Any, name: str, items: Any) -> Any:
    """A copy of a request's structure: a named tuple of Produce, or kio's dataclass."""
    changed: Any = {name: items}
    return value._replace(**changed) if hasattr(value, "_replace") else dataclasses.replace(value, **changed)


def _without_groups(topics: Iterable[Any]) -> Iterator[Any]:
    for each in topics:
        if hasattr(each, "group_id"):
            yield from each.topics or ()
        else:
            yield each


def _topic_of(item: Any) -> Topic:
    """The name of a topic that a request's item names, or its id where it has no name."""
    if isinstance(item, str):
        return item
    for name in _TOPICS:
        if value := getattr(item, name, None):
            return str(value)
    found: Topic = getattr(item, "topic_id", None)
    return found or ""


def _partition_of(item: Any) -> int:
    if isinstance(item, int):
        return item
    return int(next(getattr(item, name) for name in _PARTITIONS if hasattr(item, name)))


# ------------------------------------------------------------------------------------------------------------ answers


def refused_fields(api_key: int, version: int, request: Any, error_code: int) -> Fields:
    """The answer to a request of which nothing is done: each of its rows with the error code."""
    return _refused(load_response_schema(api_key, version), request, error_code)


def _refused(entity: EntityClass, requested: Any, error_code: int) -> Fields:
    fields: Fields = {}
    for field in schema_fields(entity):
        if field.name in _ERRORS:
            fields[field.name] = error_code
        elif field.name == "error_message":
            fields[field.name] = MESSAGE
        elif field.is_array and field.struct is not None and _has_errors(field.struct):
            items = _requested_items(field.name, requested)
            fields[field.name] = [_refused(field.struct, item, error_code) for item in items]
        elif field.name in _REPEATED and (value := _requested_value(field.name, requested)) is not None:
            fields[field.name] = value
        elif field.name in _NOTHING:
            fields[field.name] = _NOTHING[field.name]
    return fields


def _requested_items(name: str, requested: Any) -> list[Any]:
    items = [item for source in _SOURCES.get(name, (name,)) for item in getattr(requested, source, None) or ()]
    # AlterReplicaLogDirs names topics inside of directories
    return [topic for item in items for topic in (item.topics if hasattr(item, "path") else (item,))]


def _requested_value(name: str, requested: Any) -> Any:
    if isinstance(requested, (str, int)):
        is_text = isinstance(requested, str)
        return requested if name in _OF_SCALARS and (name not in _PARTITIONS) == is_text else None
    for each in (name, *(alias for names in _ALIASES if name in names for alias in names)):
        value = getattr(requested, each, None)
        if value is not None and not callable(value):  # a named tuple has a method `index`
            return plain(value)
    return None


@cache
def _has_errors(entity: EntityClass) -> bool:
    """Whether a structure has an error code at any depth."""
    return _own_error(entity) is not None or any(map(_has_errors, (field.struct for field in _row_arrays(entity))))


def _own_error(entity: EntityClass) -> str | None:
    return next((field.name for field in schema_fields(entity) if field.name in _ERRORS), None)


def _row_arrays(entity: EntityClass) -> list[SchemaField]:
    return [field for field in schema_fields(entity) if field.is_array and field.struct is not None]


def stamp(api_key: int, version: int, fields: Fields, error_code: int, hit: Hit | None) -> None:
    """Put an error code into an answer: into the rows that are meant, or, with `hit` None, where it covers everything.

    That is the answer's own error code, if it has one, else that of each row. The own error code of Metadata is not about
    topics (KIP-1102), so its topics get it.
    """
    entity = load_response_schema(api_key, version)
    if hit is None:
        _stamp_all(entity, fields, error_code, skips_own=api_key == METADATA)
    else:
        _stamp_rows(entity, fields, error_code, hit, None)


def _stamp_all(entity: EntityClass, fields: Fields, error_code: int, *, skips_own: bool = False) -> None:
    if not skips_own and _own_error(entity) is not None:
        _set(entity, fields, error_code)
        return
    for field in _row_arrays(entity):
        if _has_errors(field.struct):
            for row in fields.get(field.name) or ():
                _stamp_all(field.struct, row, error_code)


def _stamp_rows(entity: EntityClass, fields: Fields, error_code: int, hit: Hit, topic: Topic) -> None:
    topic = _first(fields, _TOPICS) or fields.get("topic_id") or topic
    partition = _first(fields, _PARTITIONS)
    if topic is not None and _own_error(entity) is not None and hit(topic, partition):
        _set(entity, fields, error_code)
        return
    for field in _row_arrays(entity):
        if _has_errors(field.struct):
            for row in fields.get(field.name) or ():
                _stamp_rows(field.struct, row, error_code, hit, topic)


def _set(entity: EntityClass, fields: Fields, error_code: int) -> None:
    name = _own_error(entity)
    assert name is not None
    fields[name] = error_code
    if any(field.name == "error_message" for field in schema_fields(entity)):
        fields["error_message"] = MESSAGE


def merge(api_key: int, version: int, into: Fields, more: Fields) -> None:
    """Add the rows of `more` to those of an answer of the same API."""
    _merge(load_response_schema(api_key, version), into, more)


def _merge(entity: EntityClass, into: Fields, more: Fields) -> None:
    for field in _row_arrays(entity):
        if not _has_errors(field.struct):
            continue
        present = {_key(row): row for row in into.get(field.name) or ()}
        rows = list(into.get(field.name) or ())
        for row in more.get(field.name) or ():
            if (same := present.get(_key(row))) is None:
                rows.append(row)
            else:
                _merge(field.struct, same, row)
        into[field.name] = rows


def _key(row: Fields) -> tuple[Any, ...]:
    return _first(row, _TOPICS) or row.get("topic_id"), _first(row, _PARTITIONS), row.get("group_id")


def _first(fields: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)
