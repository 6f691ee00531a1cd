"""Topics to create when a cluster starts: `orders:3` is topic `orders` with three partitions."""

from typing import NamedTuple

from yak.client.numbers import parse_long
from yak.errors import PeerError, UsageError, YakError
from yak.protocol.topic_names import validate_topic_name


class SeedTopic(NamedTuple):
    """A topic and its number of partitions."""

    name: str
    partitions: int


def parse_seed_topic(text: str) -> SeedTopic:
    """Read `NAME` or `NAME:PARTITIONS`. Raises UsageError (`bad-seed-topic`, `bad-topic-name`)."""
    name, colon, count = text.partition(":")
    if not name or (colon and not parse_long(count)):
        raise UsageError(
            "bad-seed-topic",
            f"--seed-topic {text} cannot be read",
            why="it is a name, or a name and a number of partitions: NAME:PARTITIONS",
            try_=("yak up --seed-topic orders:3",),
        )
    try:
        validate_topic_name(name)
    except PeerError:
        raise UsageError(
            "bad-topic-name",
            f'no topic can have the name "{name}"',
            why="a name has 1 to 249 letters, digits, dots, underscores and hyphens",
            try_=("yak up --seed-topic orders:3",),
        ) from None
    return SeedTopic(name, int(count) if colon else 1)


def make_topics(bootstrap: str, topics: tuple[SeedTopic, ...], *, timeout_ms: int) -> tuple[str, ...]:
    """Create the missing topics and return their names. Raises YakError with the broker's reason."""
    if not topics:
        return ()
    from yak.client.admin import Admin

    admin = Admin(bootstrap, timeout_ms=timeout_ms)
    made: list[str] = []
    for topic in topics:
        try:
            admin.create_topic(topic.name, partitions=topic.partitions)
        except YakError as error:
            if error.code != "topic-exists":
                raise
        else:
            made.append(topic.name)
    return tuple(made)
