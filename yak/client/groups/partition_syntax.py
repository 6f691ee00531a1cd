"""Partitions as users type them: `orders`, `orders:0,2`, `orders:0-2`."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from yak.client.numbers import parse_long
from yak.errors import UsageError
from yak.ids import TopicPartition, by_topic
from yak.limits import PARTITIONS_PER_TOPIC_MAX

if TYPE_CHECKING:
    from yak.client.metadata import ClusterMetadata


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """`orders:0-2,5 payments:1`: the syntax of `--topic`, with ranges."""
    found = by_topic(sorted(partitions)).items()
    return " ".join(f"{topic}:{','.join(_runs([each.partition for each in of]))}" for topic, of in found)


def _runs(numbers: Sequence[int]) -> list[str]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return [str(first) if first == last else f"{first}-{last}" for first, last in runs]


def parse_partitions(texts: Iterable[str], metadata: "ClusterMetadata") -> list[TopicPartition]:
    """The partitions of `orders`, `orders:0,2` and `orders:0-2`. Raises YakError for unknown topics and partitions."""
    found: dict[TopicPartition, None] = {}
    for text in texts:
        name, colon, numbers = text.rpartition(":") if ":" in text else (text, "", "")
        there = sorted(each.number for each in metadata.require_topic(name).partitions)
        for number in _numbers(numbers, text) if colon else there:
            found[TopicPartition(name, number)] = None
    require_partitions(found, metadata)
    return list(found)


def require_partitions(partitions: Iterable[TopicPartition], metadata: "ClusterMetadata") -> None:
    """Raise YakError (`unknown-topic`, `unknown-partition`) for the first partition that does not exist."""
    from yak.client.metadata import unknown_partition

    numbers: dict[str, set[int]] = {}
    for name, number in partitions:
        if name not in numbers:
            numbers[name] = {each.number for each in metadata.require_topic(name).partitions}
        if number not in numbers[name]:
            raise unknown_partition(name, number, len(numbers[name]))


def select_partitions(texts: Iterable[str], committed: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The committed partitions that `orders` or `orders:0,2` name; the topic itself may be deleted."""
    found: dict[TopicPartition, None] = {}
    every = sorted(committed)
    for text in texts:
        name, colon, numbers = text.rpartition(":") if ":" in text else (text, "", "")
        wanted = set(_numbers(numbers, text)) if colon else None
        found |= dict.fromkeys(
            each for each in every if each.topic == name and (wanted is None or each.partition in wanted)
        )
    return list(found)


def _numbers(text: str, whole: str) -> list[int]:
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        begin, end = parse_long(first), parse_long(last if dash else first)
        if begin is None or end is None or end - begin >= PARTITIONS_PER_TOPIC_MAX:
            raise UsageError(
                "usage", f'"{whole}" is not TOPIC or TOPIC:P,P', try_=("--topic orders", "--topic orders:0,2-4")
            )
        numbers += range(begin, end + 1)
    return numbers
