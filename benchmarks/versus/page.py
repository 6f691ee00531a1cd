"""docs/benchmarks.md: a section for each part of the comparison, each written by the run that measured it.

A section stands between two comments, and a run replaces its own and leaves the others as they are.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from versus.table import KAFKA, YAK, Row, met_word, short

ONE, THREE, FAILOVER = "one", "three", "failover"
PARTS = (ONE, THREE, FAILOVER)

INTRO = """\
# Benchmarks

YAK and Apache Kafka on one machine, one run, the same load from the same clients, taking turns. The sections of this
page are written by the command itself:

```sh
make bench-kafka
```

- Both on 127.0.0.1, on the same disk, neither syncing on every write (the default of both). Both run during all rounds
  of a part; each figure is taken once a round on each side, and the side that goes first alternates. Topics are fresh,
  and deleted after use.
- Kafka has the heap and garbage collector flags and the server.properties of its release, and Kafka's default time-outs.
- A client is a process with one librdkafka handle, fed by Python in batches (`yak bench` is the same code). Python
  and librdkafka in one process top out at about 1.5 million records of 100 B a second in, and 2 million out; where a
  client kept 95 % of a core or more busy, the last column says that the client was the limit. Clients and brokers share
  the machine's cores, so brokers that need less CPU leave more to the clients.
- CPU is what the brokers' processes used between the clients' start and end; YAK's includes Redis'. A gigabyte is 10^9
  bytes of record values.
- Bulk loads: acks=all, linger.ms=5, no compression, and a short warm-up before.
- Three copies of each record go to fresh pages of memory, which a virtual machine may get from its host only when they
  are written, and give back when files are deleted. On one where this page was made, a file of 2 GB took 24 s at first
  and 0.4 to 3.6 s later, and `perf` had 40 % of a leader's CPU in that copy. Both sides pay it, so that the ratios of
  bulk loads lie nearer to 1 than those of what the brokers do themselves.
- Before the first round both sides get every kind of load once, unmeasured, so that the JVM has compiled its code.
- Medians over the rounds. A ratio is YAK's median divided by Kafka's.
"""

MEASURED = """\
Measured {when} by `{command}` on {machine}.
Kafka {kafka_version}, {java}. {rounds} rounds.
"""


@dataclass(frozen=True, slots=True)
class Words:
    """What a section says around its figures."""

    title: str
    setting: str
    meaning: str


WORDS = {
    ONE: Words(
        "One broker of each",
        """\
One YAK broker with its embedded Redis, and one Kafka node (KRaft, broker and controller in one JVM). Replication
factor 1.
""",
        """\
- **start to first acknowledged record**: from the start of the process (YAK: of Redis, then the broker) on an empty data
  directory to the first acknowledgement that a client gets that retries every 10 ms, auto-creation of its topic
  included. Kafka's storage was formatted before, which is not counted.
- **ack**: one producer sends 1,000 records a second, each a request of its own; from the produce call to its
  acknowledgement.
- **one-record requests, pipelined**: librdkafka with `batch.num.messages=1` and up to 1,000 requests in flight.
- **produce, consume**: records acknowledged, or read, a second over all clients; and the broker's CPU for a gigabyte.
- **memory**: resident memory (RSS) when all rounds are done.
- **ProducerPerformance, ConsumerPerformance**: Kafka's own tools, with the Java client; CPU includes their warm-up.
""",
    ),
    THREE: Words(
        "Three brokers of each",
        """\
Three YAK brokers and their embedded Redis, and three Kafka nodes (KRaft, each broker and controller in one JVM).
Replication factor 3, acks=all, min.insync.replicas=2. Seven processes and the clients share the machine, so these are
no rates that a cluster of three machines would have: they say what replication costs.
""",
        """\
- **ack**: one producer sends 500 records a second to one partition, linger 0; from the produce call to the
  acknowledgement, which two brokers or all three have stored by then.
- **produce**: records acknowledged a second over all clients.
- **CPU of the clients**: of librdkafka and the Python around it. Where it is more than that of the brokers, the row of
  the rate says more of the clients than of the brokers, for all share the cores.
- **prepared batches**: the brokers as the limit. Here one batch of a megabyte, encoded once, is sent
  again and again over plain sockets, five in flight to each leader.
- **CPU of all brokers**: the sum over the three brokers (and Redis) for a gigabyte of values, or for a record.
- **idle partitions**: per cent of a core while nothing happens, 3 s after the topic was made; one sample.
""",
    ),
    FAILOVER: Words(
        "kill -9",
        """\
The clusters of the part above. A topic with three partitions, each with another preferred leader; one producer
(idempotent, acks=all, linger 0) sends 1,000 records a second over all three, each partition by itself, and one consumer
reads at their ends. The broker that is the active controller, and leads one of the partitions, gets SIGKILL; it is
started again when every partition takes writes, and the next kill comes when all replicas are in sync and the preferred
leaders lead. At the end everything is read back and compared with what was acknowledged, and with what the consumer saw.

Both clients look for a new leader within milliseconds, on both sides alike: {client};
the consumer also has {reader}. librdkafka's defaults are 100 ms and more, and would hide the cluster's own time. Kafka has
its default session time (`broker.session.timeout.ms` 9 s), as its users have it; so has YAK (6 s), which also notices
refused connections.
""",
        """\
- **writes to what the killed broker led**: the longest time without an acknowledgement of a record to the partition
  whose leader was killed, from the last one before the kill to the first one after it. A record is sent every 3 ms.
- **reads**: the same for the records that the consumer gets; it reads at the end, so a pause of writes is in it.
- **writes to what it followed**: to the other two partitions. With acks=all they wait until the dead follower has left
  the ISR.
- **writes while it came back**: the longest pause from its start until the next kill, over all partitions; the
  leadership goes back to it in that time. Pauses of a second are librdkafka's: it forgets a broker that is gone, and when
  it hears of it again with the new leader, it may take a second to connect.
- Medians over all kills; p99 is by nearest rank, so with few kills it is the longest.
""",
    ),
}


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


def section(part: str, rows: Sequence[Row], notes: Sequence[str], facts: dict[str, str]) -> str:
    """One part's section."""
    words = WORDS[part]
    setting = words.setting
    for name in ("client", "reader"):
        setting = setting.replace(f"{{{name}}}", facts.get(name, ""))
    lines = [f"## {words.title}\n", MEASURED.format(**facts), setting]
    lines += ["Median (lowest to highest sample).\n", *markdown_table(rows), ""]
    if notes:
        lines += [*(f"- {each}" for each in notes), ""]
    lines += ["### Where YAK misses its goal\n", *losses(rows), "", "### What the rows mean\n", words.meaning.rstrip()]
    return "\n".join(lines) + "\n"


def put_section(text: str, part: str, body: str) -> str:
    """The page with this part's section in its place; a page without sections is begun anew."""
    found = {name: _section_of(text, name) for name in PARTS}
    found[part] = body
    there = [f"{_begin(name)}\n\n{found[name].strip()}\n\n{_end(name)}\n" for name in PARTS if found[name]]
    return INTRO + "\n" + "\n".join(there)


def _begin(part: str) -> str:
    return f"<!-- begin: {part} -->"


def _end(part: str) -> str:
    return f"<!-- end: {part} -->"


def _section_of(text: str, part: str) -> str:
    match = re.search(re.escape(_begin(part)) + r"\n(.*?)" + re.escape(_end(part)), text, re.DOTALL)
    return "" if match is None else match[1]
