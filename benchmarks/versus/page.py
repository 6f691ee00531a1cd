"""docs/benchmarks.md: a section for each part of the comparison, each written by the run that measured it.

A section stands between two comments, and a run replaces its own and leaves the rest of the page as it is.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from versus.table import KAFKA, YAK, Row, met_word, short

ONE, THREE, FAILOVER, READS = "one", "three", "failover", "reads"
PARTS = (ONE, THREE, FAILOVER, READS)
LINE_LENGTH_MAX = 100

MEASURED = """\
Measured {when} by `{command}` on {machine}.
Kafka {kafka_version}, {java}. {rounds} rounds.
"""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    setting: str
    meaning: str


SECTIONS = {
    ONE: Section(
        "One broker of each",
        """\
One YAK broker with its embedded Redis, and one Kafka node (KRaft, broker and controller in one JVM). Replication
factor 1.
""",
        """\
- **start to first acknowledged record**: from the start of the process (YAK: of Redis, then the broker) on an empty data
  directory to the first acknowledgement that a client gets that retries every 10 ms, auto-creation of its topic
  included. Kafka's storage was formatted before, which is not counted.
- **ack**: one producer sends 1,000 records a second, each a request of its own; from when a record was due to its
  acknowledgement, so that a stall counts for all records behind it.
- **one-record requests, pipelined**: librdkafka with `batch.num.messages=1` and up to 1,000 requests in flight.
- **produce, consume**: records acknowledged, or read, a second over all clients; and the broker's CPU for a gigabyte.
- **memory**: resident memory (RSS) when all rounds are done.
- **ProducerPerformance, ConsumerPerformance**: Kafka's own tools, with the Java client; CPU includes their warm-up.
""",
    ),
    THREE: Section(
        "Three brokers of each",
        """\
Three YAK brokers and their embedded Redis, and three Kafka nodes (KRaft, each broker and controller in one JVM).
Replication factor 3, acks=all, min.insync.replicas=2. Seven processes and the clients share the machine, so these are
no rates that a cluster of three machines would have: they say what replication costs.
""",
        """\
- **ack**: one producer sends 500 records a second to one partition, linger 0; from when a record was due to the
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
    FAILOVER: Section(
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
    READS: Section(
        "Reads that are compressed, cold, or far away",
        """\
One broker of each, as in the first part; records of 1 KB in 8 partitions. Round trips are those of a link between the
clients' network namespace and the brokers, which a process delays on the same two cores: so the rates are this
machine's, and the ratios say what a delay costs each side.
""",
        """\
- **lz4**: librdkafka's batches, compressed by the producer; bytes are those of the values.
- **from disk**: the page cache was dropped before (`/proc/sys/vm/drop_caches`), and the clients did not warm up.
- **round trip**: clients read for 5 s at most, or to the end. Kafka has its release's `socket.send.buffer.bytes`, 100 KB;
  the kernel doubles it, and a connection can have no more than that under way.
""",
    ),
}


def markdown_table(rows: Sequence[Row]) -> list[str]:
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
    text = SECTIONS[part]
    setting = text.setting
    for name in ("client", "reader"):
        setting = setting.replace(f"{{{name}}}", facts.get(name, ""))
    lines = [f"## {text.title}\n", MEASURED.format(**facts), setting]
    lines += ["Median (lowest to highest sample).\n", *markdown_table(rows), ""]
    if notes:
        lines += [*(f"- {each}" for each in notes), ""]
    lines += ["### Where YAK misses its goal\n", *losses(rows), "", "### What the rows mean\n", text.meaning.rstrip()]
    return wrapped("\n".join(lines)) + "\n"


def wrapped(text: str) -> str:
    """Paragraphs and list items in lines of at most `LINE_LENGTH_MAX` characters; headings and tables stay as they are."""
    blocks: list[list[str]] = []
    for line in text.splitlines():
        is_whole = not line or line.startswith(("#", "|"))
        goes_on = blocks and not is_whole and not line.startswith("- ") and not blocks[-1][0].startswith(("#", "|"))
        if goes_on and blocks[-1][0]:
            blocks[-1].append(line.strip())
        else:
            blocks.append([line])
    return "\n".join(map(_filled, blocks))


def _filled(block: list[str]) -> str:
    text = " ".join(block)
    if text.startswith(("#", "|")):
        return text
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(
        text, LINE_LENGTH_MAX, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def put_section(text: str, part: str, body: str) -> str:
    """The page with this part's section in its place, or at the end of a page that has none; the rest is unchanged."""
    begin, end = f"<!-- begin: {part} -->", f"<!-- end: {part} -->"
    made = f"{begin}\n\n{body.strip()}\n\n{end}\n"
    before, found, rest = text.partition(begin)
    if not found:
        return f"{text}\n{made}" if text else made
    return before + made + rest.partition(f"{end}\n")[2]
