"""Requests that HTTP does not offer, over the Kafka protocol. All block (run them by `source.kafka`) and raise YakError."""

import time
from collections.abc import Mapping, Sequence

from yak.client.admin import Admin, ConfigValue
from yak.client.groups.asking import GroupBrokers
from yak.client.groups.describing import active_group, require_groups
from yak.client.groups.lag import lags_of, oldest_unread, read_marks
from yak.client.groups.offsets import committed_offsets, delete_groups, delete_offsets
from yak.client.groups.reset import Target
from yak.client.groups.resetting import ResetPlan, look_at, move
from yak.errors import YakError
from yak.ids import Offset, TopicPartition
from yak.tui.state.groups import Unread

HTTP_LISTENERS = "yak.http.listeners"


def http_addresses(servers: str) -> dict[int, str]:
    """HTTP addresses by node id; empty if no broker names one, as those of Apache Kafka and `yak serve --no-http`.

    Raises Unreachable: `unreachable`, `wrong-protocol`.
    """
    admin = Admin(servers, timeout_ms=5_000)
    found: dict[int, str] = {}
    for node_id in admin.metadata().brokers:
        for config in admin.configs("broker", str(node_id)):
            if config.name == HTTP_LISTENERS and config.value:
                found[node_id] = config.value
        if found:
            break  # this broker knows the others
    return found


def topic_configs(servers: str, topic: str) -> list[ConfigValue]:
    """All configs of a topic, and where each value comes from. Raises YakError."""
    return Admin(servers).configs("topic", topic)


def alter_topic(
    servers: str, topic: str, configs: Mapping[str, str], deletions: Sequence[str], partitions: int | None
) -> None:
    """Change configs, then add partitions. The broker checks both before it changes anything. Raises YakError."""
    admin = Admin(servers)
    if partitions is not None:
        admin.add_partitions(topic, partitions, validate_only=True)
    if configs or deletions:
        admin.alter_configs("topic", topic, configs, deletions)
    if partitions is not None:
        admin.add_partitions(topic, partitions)


_TIMEOUT_MS = 10_000


def _connect(servers: str) -> GroupBrokers:
    return GroupBrokers(Admin(servers, timeout_ms=_TIMEOUT_MS))


def plan_group_reset(servers: str, group: str, target: Target, topics: Sequence[str]) -> ResetPlan:
    """Plan an offset reset; changes nothing."""
    with _connect(servers) as brokers:
        return look_at(brokers, group, target, topics or None)


def move_group_offsets(
    servers: str, group: str, changes: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, YakError | None]:
    """Commit the offsets; returns the error of each partition, or None."""
    with _connect(servers) as brokers:
        return move(brokers, group, changes)


def delete_group(servers: str, group: str) -> None:
    """Delete a group with its offsets. A group with members is refused (`group-active`, listing them)."""
    with _connect(servers) as brokers:
        found = require_groups(brokers, [group])[group]
        if isinstance(found, YakError):
            raise found
        if found.members:
            raise active_group(found, f'group "{group}" was not deleted')
        error = delete_groups(brokers, [group])[group]
        if error is not None:
            raise error


def forget_group_topic(servers: str, group: str, topic: str) -> int:
    """Delete a group's offsets of a topic; returns the number of partitions."""
    with _connect(servers) as brokers:
        committed = committed_offsets(brokers, [group])[group]
        if isinstance(committed, YakError):
            raise committed
        partitions = [each for each in sorted(committed) if each.topic == topic]
        if not partitions:
            raise YakError("nothing-committed", f'group "{group}" has committed nothing of {topic}')
        for error in delete_offsets(brokers, group, partitions).values():
            if error is not None:
                raise error
        return len(partitions)


def find_group_unread(servers: str, group: str) -> dict[TopicPartition, Unread]:
    """The first unread record of each partition: its timestamp. Reads one batch of each partition that has lag."""
    with _connect(servers) as brokers:
        found = require_groups(brokers, [group])[group]
        committed = committed_offsets(brokers, [group])[group]
        for each in (found, committed):
            if isinstance(each, YakError):
                raise each
        assert isinstance(committed, dict)
        lags = lags_of(committed, (), read_marks(brokers.admin, committed))
        times = oldest_unread(servers, lags, timeout_s=_TIMEOUT_MS / 1000)
    asked_ms = int(time.time() * 1000)
    return {each: Unread(committed[each], timestamp_ms, asked_ms) for each, timestamp_ms in times.items()}
