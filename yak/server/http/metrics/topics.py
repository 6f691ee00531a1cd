"""Traffic by topic and in total; replication, ISR changes, elections."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from yak.cluster.controller import Cause
from yak.cluster.election_counts import BOUNDS_MS
from yak.replication.traffic import Traffic
from yak.server.http.metrics.text import Samples, counter, escaped, gauge, histogram

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_WRITTEN = "appended by producers to partitions led by this broker"
_READ = "fetched by consumers"
_BY_OFFSET = "counted by offsets, so compacted topics count more than they have"
IN_BYTES: Final = counter("yak_in_bytes", f"Bytes of record batches {_WRITTEN}, over all topics")
IN_MESSAGES: Final = counter("yak_in_messages", f"Records {_WRITTEN}, over all topics")
OUT_BYTES: Final = counter("yak_out_bytes", f"Bytes of record batches {_READ}, over all topics")
OUT_MESSAGES: Final = counter("yak_out_messages", f"Records {_READ}, over all topics; {_BY_OFFSET}")
TOPIC_IN_BYTES: Final = counter("yak_topic_in_bytes", f"Bytes of record batches {_WRITTEN}, by topic")
TOPIC_IN_MESSAGES: Final = counter("yak_topic_in_messages", f"Records {_WRITTEN}, by topic")
TOPIC_OUT_BYTES: Final = counter("yak_topic_out_bytes", f"Bytes of record batches {_READ}, by topic")
TOPIC_OUT_MESSAGES: Final = counter("yak_topic_out_messages", f"Records {_READ}, by topic; {_BY_OFFSET}")
REPLICATION_IN: Final = counter("yak_replication_in_bytes", "Bytes of records replicated from leaders")
REPLICATION_OUT: Final = counter("yak_replication_out_bytes", "Bytes of records replicated to followers")
DAMAGED_READS: Final = counter("yak_damaged_reads", "Reads that found a damaged batch in a log of this broker")
DAMAGED: Final = gauge("yak_damaged_partitions", "Replicas of this broker that have a damaged batch")

ISR_SHRINKS: Final = counter("yak_isr_shrinks", "ISR shrinks of partitions led by this broker")
ISR_EXPANDS: Final = counter("yak_isr_expands", "ISR expands of partitions led by this broker")
ISR_REFUSED: Final = counter("yak_isr_changes_refused", "ISR updates that the metadata store rejected")
ELECTIONS: Final = counter("yak_elections", "Leader elections by this broker as controller, by cause")
UNCLEAN: Final = counter("yak_unclean_elections", "Unclean leader elections")
LEADERLESS: Final = counter("yak_elections_without_leader", "Leader elections without an eligible replica")
ELECTION_SECONDS: Final = histogram(
    "yak_election_seconds", "Duration of a round of leader elections, from the detection of its cause"
)
CONTROLLER_ELECTIONS: Final = counter("yak_controller_elections", "Times that this broker was elected controller")

_TOPICS_PER_STEP: Final = 50


def gather(broker: Broker, samples: Samples, topics_max: int) -> Iterator[int]:
    """Yields 0 after each step, and at the end the number of omitted topics."""
    counters = broker.counters
    total = Traffic()
    total.add(counters.retired)
    topics = list(counters.topics.items())
    samples.add(REPLICATION_IN, counters.replicated.bytes_in)
    samples.add(REPLICATION_OUT, counters.replicated.bytes_out)
    samples.add(DAMAGED_READS, broker.damaged_replicas.reads)
    samples.add(DAMAGED, len(broker.damaged_replicas))
    samples.add(ISR_SHRINKS, broker.isr_changes.shrinks)
    samples.add(ISR_EXPANDS, broker.isr_changes.expands)
    samples.add(ISR_REFUSED, broker.isr_changes.refused)
    yield 0
    _elections(broker, samples)
    yield 0
    in_bytes, in_messages = samples.of(TOPIC_IN_BYTES), samples.of(TOPIC_IN_MESSAGES)
    out_bytes, out_messages = samples.of(TOPIC_OUT_BYTES), samples.of(TOPIC_OUT_MESSAGES)
    for number, (name, traffic) in enumerate(topics):
        total.add(traffic)
        if number % _TOPICS_PER_STEP == 0:
            yield 0
        if number >= topics_max:
            continue
        label = f'_total{{topic="{escaped(name)}"}} '
        in_bytes.append(f"{TOPIC_IN_BYTES.name}{label}{traffic.bytes_in}\n")
        in_messages.append(f"{TOPIC_IN_MESSAGES.name}{label}{traffic.messages_in}\n")
        out_bytes.append(f"{TOPIC_OUT_BYTES.name}{label}{traffic.bytes_out}\n")
        out_messages.append(f"{TOPIC_OUT_MESSAGES.name}{label}{traffic.messages_out}\n")
    samples.add(IN_BYTES, total.bytes_in)
    samples.add(IN_MESSAGES, total.messages_in)
    samples.add(OUT_BYTES, total.bytes_out)
    samples.add(OUT_MESSAGES, total.messages_out)
    yield max(0, len(topics) - topics_max)


def _elections(broker: Broker, samples: Samples) -> None:
    counts = broker.counters.elections
    for cause in Cause:
        samples.add(ELECTIONS, counts.by_cause.get(cause.value, 0), cause=cause.value)
    samples.add(UNCLEAN, counts.unclean)
    samples.add(LEADERLESS, counts.without_leader)
    samples.add(CONTROLLER_ELECTIONS, counts.controller_elections)
    *totals, count = accumulate(counts.rounds_by_duration)
    bounds = (bound / 1000 for bound in BOUNDS_MS)
    samples.add_buckets(ELECTION_SECONDS, bounds, totals, count, counts.rounds_ms / 1000, {})
