"""Topic requests that HTTP does not offer, over the Kafka protocol. They block: run them by `source.kafka`."""

from collections.abc import Mapping, Sequence

from yak.client.admin import Admin, ConfigValue


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
