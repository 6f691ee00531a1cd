"""Checks the target of a produce: the topic exists, and it has the partition."""

from yak.client.admin import Admin
from yak.client.metadata import Topic
from yak.errors import UsageError


def require_target(admin: Admin, topic: str, partition: int | None = None) -> Topic:
    """The topic to write to. Raises YakError (`unknown-topic`), UsageError (`unknown-partition`)."""
    found = admin.metadata().require_topic(topic)
    if partition is not None and partition >= len(found.partitions):
        raise UsageError(
            "unknown-partition",
            f"{topic} has no partition {partition}",
            why=f"its partitions are 0 to {len(found.partitions) - 1}",
            try_=(f"yak topics alter {topic} -p {partition + 1}",),
        )
    return found
