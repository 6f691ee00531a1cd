"""Groups that this broker coordinates: states, members and lag.

The leader reports the end of a partition without a replica on this broker. If it does not answer in time, the lag omits
its partitions, and `yak_group_lag_unknown_partitions` counts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from yak.ids import TopicPartition
from yak.server.http.metrics.text import Samples, gauge
from yak.server.http.topic_partitions import LATEST, list_offsets
from yak.view.lag import lag_records
from yak.views.group_lag import TopicLag, add_lags, coordinated_groups, members_count

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.server.http.context import Context
    from yak.server.http.metrics.rendering import MetricsLimits

GROUPS: Final = gauge("yak_groups", "Groups coordinated by this broker, by state")
MEMBERS: Final = gauge("yak_group_members", "Members of a group coordinated by this broker")
LAG: Final = gauge("yak_group_lag_messages", "Consumer lag of a group by topic: high watermark minus committed offset")
LAG_UNKNOWN: Final = gauge(
    "yak_group_lag_unknown_partitions", "Partitions with committed offsets whose high watermark is unknown"
)

_PER_STEP: Final = 100
_MEMBERS_AN_OFFSET: Final = 10
"""Members whose state takes as long to read as the lag of a partition."""
_ASK_SECONDS: Final = 1.0


def gather(
    broker: Broker, samples: Samples, limits: MetricsLimits, lags: list[TopicLag], left_out: dict[str, int]
) -> Iterator[None]:
    """Write states and members, and compute `lags`; a step takes a fraction of a millisecond.

    `left_out` counts what is omitted: `groups`, `group_topics`, `group_offsets`.
    """
    states: dict[str, int] = {}
    samples.of(GROUPS)
    samples.of(MEMBERS)
    listed = compared = since_step = 0
    for group in coordinated_groups(broker):
        state, members = group.state_name, members_count(group)  # the state depends on each member's
        states[state] = states.get(state, 0) + 1
        since_step += 1 + members // _MEMBERS_AN_OFFSET
        if listed >= limits.groups_max or len(group.group_id) > limits.group_name_length_max:
            left_out["groups"] += 1
        else:
            listed += 1
            samples.add(MEMBERS, members, group=group.group_id)
            for topic, committed in list(group.offsets.topics.items()):
                if len(lags) >= limits.group_topics_max or compared + len(committed) > limits.group_offsets_max:
                    left_out["group_topics"] += 1
                    left_out["group_offsets"] += len(committed)
                    continue
                compared += len(committed)
                lags.append(TopicLag(group.group_id, topic))
                offsets = list(committed.items())
                for start in range(0, len(offsets), _PER_STEP):
                    some = offsets[start : start + _PER_STEP]
                    add_lags(broker, lags[-1], some)
                    since_step += len(some)
                    if since_step >= _PER_STEP:
                        since_step = 0
                        yield
        if since_step >= _PER_STEP:
            since_step = 0
            yield
    for state in sorted(states):
        samples.add(GROUPS, states[state], state=state)
    yield


def write_lags(samples: Samples, lags: list[TopicLag]) -> Iterator[None]:
    """Write the lags; partitions still in `elsewhere` count as unknown."""
    samples.of(LAG)
    unknown = 0
    for number, lag in enumerate(lags):
        samples.add(LAG, lag.messages, group=lag.group_id, topic=lag.topic)
        unknown += len(lag.elsewhere)
        if number % _PER_STEP == 0:
            yield
    samples.add(LAG_UNKNOWN, unknown)
    yield


async def ask_elsewhere(context: Context, lags: list[TopicLag]) -> None:
    """Ask the leaders of partitions without a replica here for their high watermarks, in parallel."""
    incomplete = [lag for lag in lags if lag.elsewhere]
    partitions = dict.fromkeys(TopicPartition(lag.topic, index) for lag in incomplete for index, _ in lag.elsewhere)
    found = await list_offsets(context, partitions, LATEST, _ASK_SECONDS) if partitions else {}
    for lag in incomplete:
        missing, lag.elsewhere = lag.elsewhere, []
        for index, committed in missing:
            high_watermark = found.get(TopicPartition(lag.topic, index))
            if high_watermark is None:
                lag.elsewhere.append((index, committed))
            else:
                lag.messages += lag_records(committed, high_watermark)
