"""A stream's offsets in Spark's checkpoint: `{"orders":{"0":42,"1":17}}`, the next offset of each partition.

That is the form of Spark's Kafka source (`KafkaSourceOffset.scala`). Three keys that no topic can have are added:

- `~ids` has the ids of the topics: the offsets of a topic that was deleted and created again are of other records.
- `~initial` marks offsets of `initialOffset`: the start of a query without a checkpoint.
- `~since`, in the end of the first batch with records, holds that batch's start offsets.

Spark writes a batch's end before it runs the batch, but not the start of the first batch. If Spark is killed in
between, it calls `initialOffset` again, and with `startingOffsets=latest` the records in between would be lost. So the
first end holds the start: in `~since`, or, if the first batch is empty, by being `~initial` itself. Spark's Kafka
source writes a file of its own for that.

Spark compares offsets as text, so equal offsets have equal text: sorted by topic, then by partition number.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from yak.ids import TopicPartition
from yak.spark.source.errors import CHECKPOINT, SourceError

Offsets: TypeAlias = dict[TopicPartition, int]
TopicIds: TypeAlias = dict[str, str]
"""By topic; without those that are not known: of a checkpoint of an earlier version, or of a broker without ids."""
IDS = "~ids"
INITIAL = "~initial"
SINCE = "~since"


def to_json(offsets: Mapping[TopicPartition, int], ids: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The form for Spark's checkpoint."""
    found: dict[str, Any] = {}
    for each in sorted(offsets):
        found.setdefault(each.topic, {})[str(each.partition)] = offsets[each]
    known = {topic: ids[topic] for topic in found if topic in ids} if ids else {}
    return {**found, IDS: known} if known else found


def ids_in(stored: Mapping[str, Any]) -> TopicIds:
    """The topic ids of a checkpoint."""
    found = stored.get(IDS)
    return dict(found) if isinstance(found, dict) else {}


def recreated(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The topics that were deleted and created again in between."""
    return sorted(topic for topic, topic_id in before.items() if now.get(topic, topic_id) != topic_id)


def from_json(stored: Mapping[str, Any]) -> Offsets:
    """The offsets of a checkpoint. Raises SourceError if another source wrote them."""
    found: Offsets = {}
    for topic, partitions in stored.items():
        if topic.startswith("~"):
            continue
        if not isinstance(partitions, dict):
            raise _foreign(stored)
        for number, offset in partitions.items():
            if not str(number).isdecimal() or not isinstance(offset, int) or isinstance(offset, bool):
                raise _foreign(stored)
            found[TopicPartition(topic, int(number))] = offset
    return found


def initial(offsets: Mapping[TopicPartition, int], ids: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The result of `initialOffset`."""
    return {**to_json(offsets, ids), INITIAL: True}


def end_after(
    start: Mapping[str, Any], end: Mapping[TopicPartition, int], ids: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The end of a batch that starts at `start`; `start` itself if there is nothing to read."""
    begun, known = from_json(start), ids_in(start)
    if begun == dict(end) and not recreated(known, ids or {}):
        return dict(start)
    return {**to_json(end, ids), SINCE: to_json(begun, known)} if INITIAL in start else to_json(end, ids)


def start_of(start: Mapping[str, Any], end: Mapping[str, Any]) -> tuple[Offsets, TopicIds]:
    """The start of the batch with this end, also for the first batch when it runs again after a crash."""
    if INITIAL in start and isinstance(end.get(SINCE), dict):
        start = end[SINCE]
    elif INITIAL in start and INITIAL in end:
        start = end
    return from_json(start), ids_in(start)


def _foreign(stored: Mapping[str, Any]) -> SourceError:
    return SourceError(
        CHECKPOINT,
        "the checkpoint is another query's",
        why=f'its offsets are not of a format("yak") source: {str(dict(stored))[:120]}',
        try_=("give this query a checkpoint directory of its own",),
    )
