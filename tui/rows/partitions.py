"""Partitions of a topic as rows. Pure."""

from collections.abc import Sequence
from typing import Final

from yak.tui.look import Look, span
from yak.tui.rows.cells import Cell, Column, Row, Tone
from yak.tui.rows.topics import TopicFacts
from yak.tui.state.picture import Partition

NARROW: Final = 96


def columns(width: int) -> tuple[Column, ...]:
    """The columns; a narrow window uses the short name of the high watermark."""
    return (
        Column("P", 2, is_right=True),
        Column("LEADER", 6, is_right=True, flash=True),
        Column("EPOCH", 5, is_right=True, flash=True),
        Column("ISR", 5, flash=True),
        Column("HW" if width < NARROW else "HIGH WATERMARK", 9, is_right=True),
        Column("LOG START", 9, is_right=True, rank=3),
        Column("SIZE", 8, is_right=True, rank=1),
        Column("IN", 7, is_right=True),
        Column("STATE", 18, most=60, flash=True),
        Column("FOR", 6, flex=1, rank=2),
    )


def isr_cell(partition: Partition, look: Look) -> Cell:
    """`1 2 ·`: replicas by node, with a dot for each one out of sync."""
    words = " ".join(str(node) if node in partition.isr else look.sign("dot") for node in sorted(partition.replicas))
    return Cell(words, "warn" if partition.is_under_replicated else "", len(partition.isr))


def state_words(partition: Partition, min_isr: int | None) -> tuple[str, str, Tone]:
    """Sign, word and tone."""
    if partition.leader is None:
        return "bad", "no leader", "bad"
    if min_isr is not None and len(partition.isr) < min(min_isr, len(partition.replicas)):
        return "bad", f"below min ISR {min_isr}", "bad"
    if partition.is_under_replicated:
        return "warn", "under-replicated", "warn"
    return "good", "in sync", "good"


def partition_rows(
    partitions: Sequence[Partition], facts: TopicFacts | None, min_isr: int | None, look: Look, now_ms: int
) -> list[Row]:
    """Rows ordered by partition number, which is the key."""
    return [_row(each, facts, min_isr, look, now_ms) for each in partitions]


def _row(partition: Partition, facts: TopicFacts | None, min_isr: int | None, look: Look, now_ms: int) -> Row:
    sign, words, tone = state_words(partition, min_isr)
    since = ""
    if partition.since_ms is not None and tone != "good":
        since = span(max(0, now_ms - partition.since_ms))
    start = None if facts is None else facts.log_starts.get(partition.partition)
    size = None if facts is None else facts.sizes.get(partition.partition)
    leader = look.sign("none") if partition.leader is None else str(partition.leader)
    high = partition.high_watermark
    return Row(
        str(partition.partition),
        (
            Cell(str(partition.partition), "strong", partition.partition),
            Cell(
                leader, "bad" if partition.leader is None else "", -1 if partition.leader is None else partition.leader
            ),
            Cell(str(partition.leader_epoch), "", partition.leader_epoch),
            isr_cell(partition, look),
            Cell(look.number(high), "", -1 if high is None else high),
            Cell(look.number(start), "dim", -1 if start is None else start),
            Cell(look.size(size), "", -1 if size is None else size),
            Cell(look.rate(partition.rate_in), "" if partition.rate_in else "dim", partition.rate_in),
            Cell(f"{look.sign(sign)} {words}", tone),
            Cell(since, tone, 0 if partition.since_ms is None else now_ms - partition.since_ms),
        ),
    )


def partitions_title(
    topic: str, partitions: Sequence[Partition], facts: TopicFacts | None, min_isr: int | None, look: Look
) -> str:
    """`Partitions of orders: 3 x RF 3, min ISR 2, 1 843 records, 412 KiB`."""
    factor = max((len(each.replicas) for each in partitions), default=0)
    words = [f"{look.number(len(partitions))} {'x' if look.is_ascii else '×'} RF {factor}"]
    if min_isr is not None:
        words.append(f"min ISR {min_isr}")
    if facts is not None:
        messages = facts.messages(partitions)
        words += [f"{look.number(messages)} messages"] if messages is not None else []
        words += [look.size(facts.size_bytes)] if facts.size_bytes is not None else []
    return f"Partitions of {topic}: {', '.join(words)}"
