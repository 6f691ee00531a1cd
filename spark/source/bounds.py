"""The start and end of a read, as the user set them: the four forms of Spark's `KafkaOffsetRangeLimit`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from yak.ids import TopicPartition
from yak.spark.source.errors import bad_option
from yak.spark.source.option_values import numbers_by_partition, whole_number

LATEST_OFFSET = -1
EARLIEST_OFFSET = -2


@dataclass(frozen=True)
class Bound:
    """`kind` is earliest, latest, offsets (by partition; -1 and -2 as in Spark), time (one, ms) or times (by partition, ms)."""

    kind: str
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    times: Mapping[TopicPartition, int] = field(default_factory=dict)
    time_ms: int = 0


EARLIEST = Bound("earliest")
LATEST = Bound("latest")


def read_bound(given: Mapping[str, str], side: str) -> Bound | None:
    """The bound of `side` (starting, ending) among lower-case options; None if no option sets it.

    Precedence is `…Timestamp`, `…OffsetsByTimestamp`, `…Offsets`, as in Spark (`getKafkaOffsetRangeLimit`). Raises
    SourceError.
    """
    time, times, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if time.lower() in given:
        return Bound("time", time_ms=whole_number(time, given[time.lower()]))
    if times.lower() in given:
        return Bound("times", times=numbers_by_partition(times, given[times.lower()]))
    text = given.get(offsets.lower())
    if text is None:
        return None
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return EARLIEST if word == "earliest" else LATEST
    if not text.strip().startswith("{"):
        raise bad_option(offsets, text, 'it is earliest, latest, or JSON such as {"orders":{"0":23,"1":-2}}')
    found = numbers_by_partition(offsets, text)
    if any(number < EARLIEST_OFFSET for number in found.values()):
        raise bad_option(offsets, text, "below 0 there are only -1 (latest) and -2 (earliest)")
    return Bound("offsets", offsets=found)
