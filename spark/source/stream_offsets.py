"""A stream's offsets as Spark keeps them in its checkpoint: `{"orders":{"0":42,"1":17}}`, the next offset of each partition.

That is the form of Spark's Kafka source (`KafkaSourceOffset.scala`). Two keys that no topic can have say more:

- `~initial` marks offsets that `initialOffset` made: where a query begins that has no checkpoint.
- `~since`, in the end of the first batch with records, are the offsets that it began from.

Spark writes a batch's end before it runs it, but not the beginning of the first: killed in between, it asks `initialOffset`
again, and with `startingOffsets=latest` what came meanwhile would be lost. So the first end says it: by `~since`, or, where
the first batch is empty, by being `~initial` itself. Spark's Kafka source has a file of its own for that.

Spark compares offsets as text, so equal offsets are written alike: sorted by topic, then by partition number.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from yak.ids import TopicPartition
from yak.spark.source.errors import CHECKPOINT, SourceError

Offsets: TypeAlias = dict[TopicPartition, int]
INITIAL = "~initial"
SINCE = "~since"


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """The form that Spark keeps."""
    found: dict[str, Any] = {}
    for each in sorted(offsets):
        found.setdefault(each.topic, {})[str(each.partition)] = offsets[each]
    return found


def from_json(kept: Mapping[str, Any]) -> Offsets:
    """The offsets in what Spark kept. Raises SourceError for what this source did not write."""
    found: Offsets = {}
    for topic, partitions in kept.items():
        if topic.startswith("~"):
            continue
        if not isinstance(partitions, dict):
            raise _foreign(kept)
        for number, offset in partitions.items():
            if not str(number).isdecimal() or not isinstance(offset, int) or isinstance(offset, bool):
                raise _foreign(kept)
            found[TopicPartition(topic, int(number))] = offset
    return found


def initial(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """What `initialOffset` gives."""
    return {**to_json(offsets), INITIAL: True}


def end_after(start: Mapping[str, Any], end: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """The end of a batch that begins at `start`; `start` itself where nothing is to be read."""
    begun = from_json(start)
    if begun == dict(end):
        return dict(start)
    return {**to_json(end), SINCE: to_json(begun)} if INITIAL in start else to_json(end)


def start_of(start: Mapping[str, Any], end: Mapping[str, Any]) -> Offsets:
    """Where the batch with this end began: also when it is the first, and is run again after a crash."""
    if INITIAL in start and isinstance(end.get(SINCE), dict):
        return from_json(end[SINCE])
    if INITIAL in start and INITIAL in end:
        return from_json(end)
    return from_json(start)


def _foreign(kept: Mapping[str, Any]) -> SourceError:
    return SourceError(
        CHECKPOINT,
        "the checkpoint is another query's",
        why=f'its offsets are not of a format("yak") source: {str(dict(kept))[:120]}',
        try_=("give this query a checkpoint directory of its own",),
    )
