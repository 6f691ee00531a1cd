"""Changes and describes a cluster: topics, configs, offsets, brokers. Every call ends within its timeout."""

import math
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from yak.client.connection import base_config, check_reachable, is_plain
from yak.client.errors import Change, from_exception, kafka_exceptions
from yak.client.metadata import ClusterMetadata, read_metadata
from yak.client.numbers import parse_long
from yak.client.quorum import read_controller
from yak.client.raw_connection import runs
from yak.errors import Unreachable, YakError
from yak.ids import INTERNAL_TOPICS, NodeId, Offset, TopicPartition
from yak.limits import TOPIC_NAME_LENGTH_MAX

LEADER_MOVES = ("not-leader", "no-leader", "timed-out")
"""Errors that end once a partition has its next leader; librdkafka's ListOffsets does not wait for that."""
LEADER_PAUSE_S = 0.05
LEADER_ANSWERS_S = 1.0
"""How long the first request for offsets, and the first refresh of leaders, may take; each further one twice as long."""
ANSWERED_S = 3.0
"""How long offsets are read of those partitions only whose leader answers."""
PARTITIONS_A_SECOND = 5_000
"""How many partitions add a second to these two times."""
AT_ONCE = 1_000
"""Partitions or topics of one request: librdkafka takes longer for each if they are more, and a YAK broker closes the
connection at more than 12,000 array elements."""
LEADERS_AGE_S = 1.0
"""After this time the leaders that librdkafka knows are read again before it asks them for offsets."""
METADATA_S = 3.0
"""How long the brokers that are connected have for the metadata, before other connections are made."""
CONTROLLER_SECONDS = 3.0
REQUEST_TIMEOUT_MS_MAX = 3_600_000
"""librdkafka refuses a longer one."""
_INVALID_REQUEST = 42
MIN_ISR = "min.insync.replicas"
EARLIEST = "earliest"
LATEST = "latest"


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One config of a topic or broker; `source` names Kafka's config source: default, topic, broker, static…"""

    name: str
    value: str | None
    source: str
    is_default: bool
    is_read_only: bool
    is_sensitive: bool


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """An offset, and the epoch of the leader that wrote there; -1 and None without one."""

    offset: Offset
    leader_epoch: int | None


SOURCES = {
    0: "unknown",
    1: "topic",
    2: "broker",
    3: "default broker",
    4: "static",
    5: "default",
    6: "group",
}


def library() -> Any:
    """librdkafka's admin module, imported on first use; typed Any, since its names are not exported to type
    checkers."""
    import confluent_kafka.admin

    return confluent_kafka.admin


def _silent_leader(partition: TopicPartition) -> Unreachable:
    return Unreachable(
        "unreachable",
        f"offsets of {partition} could not be read",
        why="its leader does not answer",
        try_=(f"yak isr {shlex.quote(partition.topic)}", "yak doctor"),
    )


def _left_s(deadline: float) -> float:
    """The time until the deadline, and a moment after it: librdkafka refuses a timeout of 0."""
    return max(deadline - time.monotonic(), LEADER_PAUSE_S)


def _shows(topic: str) -> str:
    return f"yak topics describe {topic}"


def creation_with_a_valid_name(name: str, otherwise: str) -> str:
    """The command for an invalid name without what is invalid; `orders:3` is meant as a topic with 3 partitions."""
    stem, _, partitions = name.partition(":")
    valid = re.sub(r"[^a-zA-Z0-9._-]+", "-", stem)[:TOPIC_NAME_LENGTH_MAX]
    if valid in ("", ".", "..", name):
        return otherwise
    return f"yak topics create {valid}" + (f" -p {partitions}" if parse_long(partitions) else "")


NO_TOPIC_ID: Final = "A" * 22
"""Kafka's Uuid.ZERO_UUID, in base64."""


class Admin:
    """One admin connection. Construction checks that a broker answers. Every method raises YakError.

    `extra` are librdkafka settings. With an encrypted or authenticated connection nothing is checked at construction.
    """

    def __init__(
        self,
        servers: str,
        *,
        timeout_ms: int = 10_000,
        verbose: int = 0,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.servers = servers
        self.timeout_s = min(timeout_ms, REQUEST_TIMEOUT_MS_MAX) / 1000
        self._leaders_read_s = -math.inf
        given = dict(extra or {})
        self.answered = check_reachable(servers, timeout_ms) if is_plain(given) else servers
        self._config = base_config(servers, verbose=verbose) | given
        self.client: Any = self._connect()

    def _connect(self) -> Any:
        try:
            return library().AdminClient(self._config)
        except kafka_exceptions() as error:
            raise from_exception(error, "the connection's settings are refused") from None

    def metadata(self) -> ClusterMetadata:
        """All brokers and topics.

        librdkafka sends the request to any connected broker, for a minute even to one that has become silent. Another
        client has no connection to such a broker.
        """
        try:
            found = read_metadata(self.client, timeout_s=min(METADATA_S, self.timeout_s))
        except YakError as error:
            if error.code != "timed-out" or self.timeout_s <= METADATA_S:
                raise
            self.client = self._connect()
            found = read_metadata(self.client, timeout_s=self.timeout_s - METADATA_S)
        self._leaders_read_s = time.monotonic()
        return found

    def controller_id(self, metadata: ClusterMetadata, *, is_yak: bool) -> NodeId:
        """The leader of Kafka's metadata quorum; without an answer, and for a YAK cluster, the controller in `metadata`.

        The controller of a YAK cluster need not lead its metadata quorum.
        """
        if is_yak:
            return metadata.controller_id
        found = read_controller([self.answered], timeout_s=min(CONTROLLER_SECONDS, self.timeout_s))
        return metadata.controller_id if found is None else found.node_id

    def _wait(self, future: Any, what: str, try_: tuple[str, ...] = ()) -> Any:
        try:
            return future.result(self.timeout_s + 1)
        except kafka_exceptions() as error:
            raise from_exception(error, what, try_=try_) from None

    def _change(self, future: Any, change: Change, *, validate_only: bool = False) -> Any:
        try:
            return self._wait(future, change.not_made)
        except YakError as error:
            if validate_only:
                raise
            raise change.failure(error) from None

    def _ask(self, what: str, call: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, **{"request_timeout": self.timeout_s, **options})
        except kafka_exceptions() as error:
            raise from_exception(error, what) from None

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        assignment: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create one topic; -1 is the broker's default. `assignment` gives the replicas of each partition."""
        if assignment is not None:
            # Without the number of partitions librdkafka assumes the broker's default, and refuses it along with an
            # assignment.
            rows = [list(ids) for ids in assignment]
            new = library().NewTopic(name, len(rows), replica_assignment=rows, config=dict(configs or {}))
        else:
            new = library().NewTopic(
                name, num_partitions=partitions, replication_factor=replication_factor, config=dict(configs or {})
            )
        change = Change(f'topic "{name}" was', "created", _shows(name))
        futures = self._ask(
            change.not_made,
            self.client.create_topics,
            [new],
            validate_only=validate_only,
            operation_timeout=self.timeout_s,
        )
        try:
            self._change(futures[name], change, validate_only=validate_only)
        except YakError as error:
            if error.code == "topic-exists":
                error.try_ = (f"yak topics describe {name}", "add --if-not-exists")
            elif error.code == "bad-topic-name":
                error.try_ = (creation_with_a_valid_name(name, "yak topics list"),)
            raise

    def delete_topic(self, name: str) -> None:
        """Delete one topic."""
        self.delete_topics([name])

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics with one request. Raises YakError for the first topic that was not deleted; the others are
        deleted."""
        if not names:
            return
        futures = self._ask(
            f"topics were not deleted: {', '.join(names)}",
            self.client.delete_topics,
            list(names),
            operation_timeout=self.timeout_s,
        )
        for name, future in futures.items():
            try:
                self._change(future, Change(f'topic "{name}" was', "deleted", _shows(name)))
            except YakError as error:
                if error.code == "not-authorized" and name in INTERNAL_TOPICS:
                    error.try_ = ("log in as one of super.users: only they may delete internal topics",)
                raise

    def add_partitions(self, name: str, total: int, *, validate_only: bool = False) -> None:
        """Increase a topic's partitions to `total`."""
        change = Change(f'topic "{name}" was', f"grown to {total} partitions", _shows(name))
        new = [library().NewPartitions(name, total)]
        futures = self._ask(change.not_made, self.client.create_partitions, new, validate_only=validate_only)
        self._change(futures[name], change, validate_only=validate_only)

    def delete_records(self, before: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset | YakError]:
        """Raise log start offsets; the new log start offset, or the error, of each partition."""
        from confluent_kafka import TopicPartition as Wire

        futures = self._ask(
            "no records were deleted",
            self.client.delete_records,
            [Wire(each.topic, each.partition, offset) for each, offset in before.items()],
        )
        results: dict[TopicPartition, Offset | YakError] = {}
        for wire, future in futures.items():
            partition = TopicPartition(wire.topic, wire.partition)
            try:
                low = self._change(future, Change(f"{partition} was", "trimmed", _shows(wire.topic))).low_watermark
                results[partition] = int(low)
            except YakError as error:
                results[partition] = error
        return results

    def _resource(self, kind: str, name: str) -> Any:
        return library().ConfigResource(
            library().ResourceType.TOPIC if kind == "topic" else library().ResourceType.BROKER, name
        )

    def configs(self, kind: str, name: str) -> list[ConfigValue]:
        """All configs of a `topic` or `broker`, by name."""
        what = f'configs of {kind} "{name}" could not be read'
        futures = self._ask(what, self.client.describe_configs, [self._resource(kind, name)])
        entries = self._wait(next(iter(futures.values())), what)
        return [
            ConfigValue(
                entry.name,
                entry.value,
                SOURCES.get(int(entry.source), str(entry.source)) if entry.source is not None else "unknown",
                bool(entry.is_default) or (entry.source is not None and int(entry.source) == 5),
                bool(entry.is_read_only),
                bool(entry.is_sensitive),
            )
            for entry in sorted(entries.values(), key=lambda each: str(each.name))
        ]

    def min_isrs(self, topics: Iterable[str]) -> dict[str, int]:
        """`min.insync.replicas` of topics; 1 where the cluster does not say, or not to this user."""
        names = list(topics)
        what = "the topics' configs could not be read"
        found = {}
        for some in runs(names, AT_ONCE):
            futures = self._ask(what, self.client.describe_configs, [self._resource("topic", name) for name in some])
            for resource, future in futures.items():
                try:
                    found[resource.name] = self._wait(future, what).get(MIN_ISR)
                except YakError as error:
                    if error.code != "not-authorized":
                        raise
        return {name: int(entry.value) if (entry := found.get(name)) and entry.value else 1 for name in names}

    def alter_configs(
        self,
        kind: str,
        name: str,
        changes: Mapping[str, str],
        deletions: Sequence[str] = (),
        *,
        validate_only: bool = False,
    ) -> None:
        """Set and delete single configs, and keep the others (IncrementalAlterConfigs, KIP-339)."""
        resource = self._resource(kind, name)
        for config, value in changes.items():
            resource.add_incremental_config(
                library().ConfigEntry(config, value, incremental_operation=library().AlterConfigOpType.SET)
            )
        for config in deletions:
            resource.add_incremental_config(
                library().ConfigEntry(config, None, incremental_operation=library().AlterConfigOpType.DELETE)
            )
        change = Change(f'configs of {kind} "{name}" were', "changed", f"yak {kind}s describe {name}")
        request = self.client.incremental_alter_configs
        futures = self._ask(change.not_made, request, [resource], validate_only=validate_only)
        try:
            self._change(next(iter(futures.values())), change, validate_only=validate_only)
        except YakError as error:
            if error.kafka_code == _INVALID_REQUEST:
                # what a broker answers for a bad value of its own configs, and for one that needs a restart
                error.code, error.try_ = "bad-config", ("yak help bad-config",)
            raise

    def offsets(
        self, wanted: Mapping[TopicPartition, str | int], *, read_committed: bool = False, answered_only: bool = False
    ) -> dict[TopicPartition, FoundOffset]:
        """`earliest`, `latest`, or the first offset at or after a time in ms, of each partition.

        `latest` is the high watermark, or the last stable offset with `read_committed`. While a partition's leader
        moves or does not answer, its leader is looked up again and the request is retried, until the timeout.
        `answered_only` leaves out partitions whose leader does not answer the second request, or that get no leader
        within 3 s, and 1 s more for each 5,000 partitions.
        """
        from confluent_kafka import OFFSET_INVALID, IsolationLevel
        from confluent_kafka import TopicPartition as Wire

        if not wanted:
            return {}
        level = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        named = {EARLIEST: library().OffsetSpec.earliest(), LATEST: library().OffsetSpec.latest()}
        request = {
            Wire(each.topic, each.partition): named[spec]
            if isinstance(spec, str)
            else library().OffsetSpec.for_timestamp(max(spec, 0))  # negative ones have other meanings: -1 is the end
            for each, spec in wanted.items()
        }
        found: dict[TopicPartition, FoundOffset] = {}
        more_s = len(request) // PARTITIONS_A_SECOND
        deadline = time.monotonic() + min(ANSWERED_S + more_s if answered_only else math.inf, self.timeout_s)
        what = "offsets could not be read"
        answer_s, pause_s, is_first = LEADER_ANSWERS_S + more_s, LEADER_PAUSE_S, True
        while True:
            if not is_first or time.monotonic() - self._leaders_read_s > LEADERS_AGE_S:
                self._refresh_leaders(min(answer_s, _left_s(deadline)))
            options = {"isolation_level": level, "request_timeout": min(answer_s, _left_s(deadline))}
            futures: dict[Any, Any] = {}
            for some in runs(list(request.items()), AT_ONCE):
                futures |= self._ask(what, self.client.list_offsets, dict(some), **options)
            moving: dict[Any, YakError] = {}
            for wire, future in futures.items():
                partition = TopicPartition(wire.topic, wire.partition)
                try:
                    result = self._wait(future, f"offsets of {partition} could not be read")
                except YakError as error:
                    if error.code not in LEADER_MOVES:
                        raise
                    if is_first or not answered_only or error.code != "timed-out":
                        moving[wire] = error
                    continue
                if result.offset != OFFSET_INVALID:
                    found[partition] = FoundOffset(int(result.offset), result.leader_epoch)
                elif is_first or not answered_only:
                    # librdkafka's result, without an error, for a leader that it cannot reach
                    moving[wire] = _silent_leader(partition)
            is_late = time.monotonic() >= deadline
            if not moving or (is_late and answered_only):
                return found
            if is_late:
                raise next(iter(moving.values()))
            time.sleep(min(pause_s, _left_s(deadline)))
            answer_s, pause_s, is_first = 2 * answer_s, min(2 * pause_s, LEADER_ANSWERS_S), False
            request = {wire: spec for wire, spec in request.items() if wire in moving}

    def _refresh_leaders(self, timeout_s: float) -> None:
        """Replace the leaders that librdkafka knows.

        Its ListOffsets sends to those, even if they are dead or fenced. Where it knows none and is not connected yet, it
        looks for them only once a second.
        """
        with suppress(*kafka_exceptions()):
            self.client.list_topics(timeout=timeout_s)
            self._leaders_read_s = time.monotonic()

    def watermarks(
        self, partitions: Sequence[TopicPartition], *, read_committed: bool = False, answered_only: bool = False
    ) -> dict[TopicPartition, tuple[Offset, Offset]]:
        """(log start, end) of each partition; the end, and `answered_only`, as in `offsets`."""
        low = self.offsets(dict.fromkeys(partitions, EARLIEST), answered_only=answered_only)
        wanted = dict.fromkeys(low, LATEST)
        high = self.offsets(wanted, read_committed=read_committed, answered_only=answered_only)
        return {each: (low[each].offset, high[each].offset) for each in partitions if each in high}

    def damaged_offsets(self, name: str) -> dict[int, dict[NodeId, Offset]]:
        """The first damaged offset of each damaged replica of a topic, by partition and broker."""
        from yak.client.replica_offsets import damaged_offsets

        return damaged_offsets(self.metadata().brokers, name, timeout_s=self.timeout_s)

    def topic_id(self, name: str) -> str:
        """The topic's id as Kafka prints it (base64 with `-` and `_`, where librdkafka prints `+` and `/`)."""
        what = f'topic "{name}" could not be described'
        found = str(self._wait(self._described_topics([name], what)[name], what).topic_id)
        return found.translate(str.maketrans("+/", "-_"))

    def topic_ids(self, names: Sequence[str]) -> dict[str, str]:
        """The ids of several topics as librdkafka prints them and checkpoints have them, without topics that have none."""
        what = "the topics could not be described"
        found: dict[str, str] = {}
        for name, future in self._described_topics(names, what).items():
            try:
                topic_id = str(self._wait(future, what).topic_id)
            except YakError as error:
                if error.code not in ("unknown-topic", "not-supported"):
                    raise
            else:
                if topic_id != NO_TOPIC_ID:
                    found[name] = topic_id
        return found

    def _described_topics(self, names: Sequence[str], what: str) -> dict[str, Any]:
        """The futures of librdkafka's descriptions of topics."""
        from confluent_kafka import TopicCollection

        # librdkafka asks the controller, and looks for a new one only in the answer of Metadata.
        self.metadata()
        described: dict[str, Any] = self._ask(what, self.client.describe_topics, TopicCollection(list(names)))
        return described
