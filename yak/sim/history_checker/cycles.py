"""Cycles of dependencies between transactions that took effect, as Elle finds them (Adya's G0 and G1c).

A wr edge leads from a transaction to one that processed a record of it. A ww edge leads from a transaction to the next
one by offsets in a partition. `read_committed` isolates reads, so a cycle of wr edges alone is an anomaly (`g1c`). Kafka does
not isolate writes: cycles through ww edges are counted, as Jepsen's Kafka workload allows them. `nonmonotonic-send` and
`stale-append` check the order of one producer's own transactions.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, pairwise

from yak.sim.history_checker.anomalies import Anomaly, Kind
from yak.sim.history_checker.history import History, Poll
from yak.sim.history_checker.logs import KnownLog
from yak.sim.history_checker.transactions import took_effect

Edge = tuple[int, int]
"""The numbers of two transactions: the later one depends on the earlier one."""


@dataclass(slots=True)
class Dependencies:
    """The edges between transactions that took effect."""

    reads: dict[Edge, tuple[str, int, Poll]] = field(default_factory=dict)
    """wr edges, each with the partition and the value of the first record read, and its poll."""
    writes: dict[Edge, None] = field(default_factory=dict)
    """ww edges."""


def dependencies(history: History, logs: Mapping[str, KnownLog]) -> Dependencies:
    """The dependencies that the clients saw; a transaction does not depend on itself."""
    found, in_effect = Dependencies(), took_effect(history)
    if not in_effect:
        return found
    for poll in history.polls():
        if poll.txn not in in_effect:
            continue
        for run in poll.runs:
            sent = logs[run.partition].sent
            for value in run.values:
                writer = sent[value].txn if value in sent else None
                if writer is not None and poll.txn is not None and writer in in_effect and writer != poll.txn:
                    found.reads.setdefault((writer, poll.txn), (run.partition, value, poll))
    for log in logs.values():
        order = (log.sent[value].txn for _, value in sorted(log.at.items()) if value in log.sent)
        writers = (txn for txn in order if txn is not None and txn in in_effect)
        found.writes |= {edge: None for edge in pairwise(writers) if edge[0] != edge[1]}
    return found


def of_reads(found: Dependencies) -> Iterator[Anomaly]:
    """`g1c`: one anomaly for each strongly connected component of wr edges."""
    component_of = _components(found.reads)
    reported: set[int] = set()
    for (writer, reader), (partition, value, poll) in found.reads.items():
        component = component_of[writer]
        if component == component_of[reader] and component not in reported:
            reported.add(component)
            members = ", ".join(str(txn) for txn in sorted(component_of) if component_of[txn] == component)
            text = f"transaction {reader} read {value} of {writer}, and the reads of {members} are a cycle"
            yield Anomaly(Kind.G1C, partition, text, None, value, poll.process, poll.ended)


def allowed(found: Dependencies) -> tuple[int, int]:
    """The strongly connected components with a cycle of ww edges alone (G0), and those with one of ww and wr edges (G1c)."""
    by_writes, by_reads = _components(found.writes), _components(found.reads)
    by_both = _components(chain(found.writes, found.reads))
    g0 = {by_writes[one] for one, other in found.writes if by_writes[one] == by_writes[other]}
    g1c = {
        by_both[one]
        for one, other in found.reads
        if by_both[one] == by_both[other] and by_reads[one] != by_reads[other]
    }
    return len(g0), len(g1c)


def _components(edges: Iterable[Edge]) -> dict[int, int]:
    """By transaction, a number of its strongly connected component (Tarjan, without recursion)."""
    following: dict[int, list[int]] = {}
    for one, other in edges:
        following.setdefault(one, []).append(other)
        following.setdefault(other, [])
    index: dict[int, int] = {}
    lowest: dict[int, int] = {}
    component_of: dict[int, int] = {}
    path: list[int] = []
    for start, onward in following.items():
        if start in index:
            continue
        index[start] = lowest[start] = len(index)
        path.append(start)
        calls = [(start, iter(onward))]
        while calls:
            node, rest = calls[-1]
            for other in rest:
                if other not in index:
                    index[other] = lowest[other] = len(index)
                    path.append(other)
                    calls.append((other, iter(following[other])))
                    break
                if other not in component_of:
                    lowest[node] = min(lowest[node], index[other])
            else:
                calls.pop()
                if calls:
                    lowest[calls[-1][0]] = min(lowest[calls[-1][0]], lowest[node])
                if lowest[node] == index[node]:
                    while node not in component_of:
                        component_of[path.pop()] = index[node]
    return component_of
