"""Coverage of runs: how often they reached the states that a log broker is about, and which they never did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from yak.sim.seed_report import SeedReport
from yak.sim.spec import names_in

UNSYNCED = ("torn: whole", "torn: nothing", "torn: prefix", "torn: holes", "torn: names")
"""The results of power losses for unsynced data."""
_FAILING = ("append", "sync", "open", "read", "truncate", "rename", "write_file")
ALONE: Mapping[str, tuple[str, ...]] = {
    "process": names_in("""
        power; kill; kill inside; killed inside a write; killed inside a start; stop; last answers lost; pause; clock;
        bug; requests failed by a bug; fail-stops; pauses of jobs; jobs interrupted
    """),
    "connections": ("break", "cut clients", "slow way"),
    "disk": names_in("""
        disk; disks that fail at the start; halts for the last directory; slow disk; cold cache;
        partitions forfeited; tails lost
    """)
    + UNSYNCED
    + tuple(f"disk failures: {what}" for what in _FAILING),
    "store": names_in("""
        outage; slow store; cut store; flutter; lost calls; lost history; stores brought back; stores restored
    """),
    "log": ("topics deleted", "records deleted on request", "log starts moved", "replicas moved"),
    "groups and transactions": names_in("""
        joins; rebalances; members crashed; commits: ok; transactions committed; transactions aborted;
        inputs processed once
    """),
    "compaction": names_in("logs compacted; committed offsets compacted; records compacted away; tombstones removed"),
    "refusals": ("refused kafka_storage_error",),
}
CLUSTER: Mapping[str, tuple[str, ...]] = {
    "leaders": names_in("""
        elections; elections outside of the ISR; unclean elections; partitions without a leader; takeovers;
        takeovers, fast; fast fencings; session fencings
    """),
    "replicas": names_in("""
        truncations; tails lost; ISR shrinks; ISR expansions; fetch sessions lost; moves completed;
        moves taken back; partitions forfeited
    """),
    "faults": names_in("""
        kill; kill inside; power; stop; pause; wipe; cut brokers; strand; cut clients; cut store; break; flutter;
        lost calls; slow way; outage; slow store; lost history; stores restored; disk; slow disk; clock;
        calls executed late; bug; requests failed by a bug; fail-stops; pauses of jobs; jobs interrupted;
        halts for the last directory; older disk; disks of an earlier time; unregister; brokers unregistered;
        kill after; kills after a truncation; kills after an unclean election; kills within a swap;
        kills after the first append to a new log
    """),
    "disks": UNSYNCED
    + names_in("rot; misread; misdirected; lost tail")
    + tuple(f"disk failures: {what}" for what in (*_FAILING, "wrong bytes"))
    + names_in("""
        damage found by brokers; damaged replicas resigned; damage refused by followers;
        damage noticed by consumers; damage noticed by coordinators; damage repaired by hand; full resyncs;
        power losses after a truncation; killed inside a write; killed inside a start
    """),
    "metadata": names_in("""
        topics created; topics deleted; topics grown; configs changed; entities changed;
        snapshots of the metadata log; positions trimmed; moves of the metadata
    """),
    "offsets": ("ends listed", "offsets found by time"),
    "follower reads": ("fetches from followers",),
    "impostors": ("impostors refused",),
    "groups": names_in("""
        coordinators loaded; loads of damaged logs; commits appended; joins; rebalances; members crashed;
        members left; members fenced; commits: ok; commits: fail; commits: info; commits by the dead;
        commits of the generation before
    """),
    "transactions": names_in("""
        transactions committed; transactions aborted; transactions fenced; transactions unknown;
        transactions timed out; markers checked; inputs processed once; cycles of writes;
        cycles of writes and reads; members rewound
    """),
    "writers": ("sent with acks=0", "sent with acks=1", "sent with acks=-1", "refused for good"),
    "log starts": names_in("""
        log starts moved; log starts moved on replicas; records deleted on request; positions given up
    """),
    "compaction": names_in("""
        logs compacted; committed offsets compacted; records compacted away; tombstones removed;
        records gone before they were copied
    """),
    "refusals": ("refused not_enough_replicas", "refused not_leader_or_follower"),
}
"""Area -> its states, by their names in a report's counts."""


NEVER_FROM = 20
"""Fewer runs miss most states: that says nothing about the runs."""


class Coverage:
    """Adds up reports of one kind of run: with one broker, or with several."""

    def __init__(self, brokers: int) -> None:
        self.areas = ALONE if brokers == 1 else CLUSTER
        self.totals: Counter[str] = Counter()
        self.runs_count = 0
        self.seeds: Counter[str] = Counter()
        """The number of runs that reached each state."""

    def add(self, report: SeedReport) -> None:
        self.runs_count += 1
        self.totals.update(report.counts)
        self.seeds.update(name for name, count in report.counts.items() if count > 0)

    def never(self) -> list[str]:
        return [name for names in self.areas.values() for name in names if not self.totals[name]]

    def lines(self) -> list[str]:
        """For a reader: a line per area with `state count (runs with it)`, then what many runs never reached."""
        width = max(map(len, self.areas))
        lines = []
        for area, names in self.areas.items():
            reached = [f"{name} {self.totals[name]} ({self.seeds[name]})" for name in names if self.totals[name]]
            lines.append(f"  {area.ljust(width)}  {', '.join(reached) or 'nothing'}")
        if self.runs_count >= NEVER_FROM and (never := self.never()):
            lines.append(f"  never reached: {', '.join(never)}")
        return lines
