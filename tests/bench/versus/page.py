"""docs/benchmarks.md, written from a run."""

from collections.abc import Sequence

from versus.table import KAFKA, YAK, Row, met_word, short

INTRO = """\
# Benchmarks

YAK and Apache Kafka on one machine, one run, the same load from the same clients, taking turns. This page is written
by the command itself:

```sh
{command}
```

Measured {when} on {machine}.
Kafka {kafka_version}, {java}.

How it is done:

- One YAK broker with its embedded Redis, and one Kafka node (KRaft, broker and controller in one JVM) with the heap and
  garbage collector flags and the server.properties of its release. Both on 127.0.0.1, replication factor 1, on the same
  disk, neither syncing on every write (the default of both). Both run during all {rounds} rounds; each figure is taken
  once a round on each side, and the side that goes first alternates. Topics are fresh, and deleted after use.
- A client is a process with one librdkafka handle, fed by Python in batches (`yak bench` is the same code). Python
  and librdkafka in one process top out at about 1.5 million records of 100 B a second in, and 2 million out; where a
  client kept 95 % of a core or more busy, the last column says that the client was the limit. Clients and broker share
  the machine's {cores} cores, so a broker that needs less CPU leaves more to the clients.
- CPU is what the broker's process used between the clients' start and end; YAK's includes Redis'. A gigabyte is 10^9
  bytes of record values.
- Bulk loads: acks=all, linger.ms=5, no compression, 0.3 s of warm-up before.
- Before the first round both brokers get every kind of load once, unmeasured, so that the JVM has compiled its code.
- Medians over {rounds} rounds. A ratio is YAK's median divided by Kafka's.

"""

MEANING = """\
## What the rows mean

- **start to first acknowledged record**: from the start of the process (YAK: of Redis, then the broker) on an empty data
  directory to the first acknowledgement that a client gets that retries every 10 ms, auto-creation of its topic
  included. Kafka's storage was formatted before, which is not counted.
- **ack**: one producer sends 1,000 records a second, each a request of its own; from the produce call to its
  acknowledgement.
- **one-record requests, pipelined**: librdkafka with `batch.num.messages=1` and up to 1,000 requests in flight.
- **produce, consume**: records acknowledged, or read, a second over all clients; and the broker's CPU for a gigabyte.
- **memory**: resident memory (RSS) when all rounds are done.
- **ProducerPerformance, ConsumerPerformance**: Kafka's own tools, with the Java client; CPU includes their warm-up.

"""


def markdown_table(rows: Sequence[Row]) -> list[str]:
    """The table of medians with the range of the samples."""
    lines = [
        "| what | unit | YAK | Kafka | ratio | goal | met | limit |",
        "| --- | --- | ---: | ---: | ---: | --- | --- | --- |",
    ]
    for row in rows:
        sides = " | ".join(f"{short(row.median(side))} ({row.spread(side)})" for side in (YAK, KAFKA))
        goal = str(row.goal or "")
        lines.append(
            f"| {row.name} | {row.unit} | {sides} | {row.ratio:.2f} | {goal} | {met_word(row.met)} | {row.note()} |"
        )
    return lines


def losses(rows: Sequence[Row]) -> list[str]:
    """The rows whose goal is not met, as a list; or that there is none."""
    lost = [row for row in rows if row.met is False]
    if not lost:
        return ["In no row of this run."]
    return [
        f"- {row.name}: {short(row.median(YAK))} against {short(row.median(KAFKA))} {row.unit}, "
        f"ratio {row.ratio:.2f}, goal {row.goal}" + (" (the client was the limit)" if row.note() == "client" else "")
        for row in lost
    ]


def page(rows: Sequence[Row], skipped: Sequence[str], facts: dict[str, str]) -> str:
    """The whole page."""
    lines = [INTRO.format(**facts), "## Figures\n", "Median (lowest to highest round).\n", *markdown_table(rows), ""]
    if skipped:
        lines += [*(f"- {each}" for each in skipped), ""]
    lines += ["## Where YAK misses its goal\n", *losses(rows), "", MEANING.rstrip()]
    return "\n".join(lines) + "\n"
