"""The members of a group as processes, of any client, and what may be demanded of all of them together.

`Group.start` begins one, `leave` lets it go in order, `kill` takes it away without a word. `check` then looks at
everything that any of them ever said: no record below an acknowledged commit was given out again.
"""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from support.loads import SteadyLoad
from support.waiting import wait_until

MEMBER = str(Path(__file__).with_name("group_member.py"))
SESSION_MS = 2_000
Place = tuple[str, int]
KCAT = "kcat"
PYTHON_KINDS = ("confluent-kafka", "aiokafka", "kafka-python")
ALL_KINDS = (*PYTHON_KINDS, KCAT)


class Member:
    """One consumer: its process, and all that it said so far, in order."""

    def __init__(self, kind: str, process: subprocess.Popen[str]) -> None:
        self.kind = kind
        self.process = process
        self.events: list[dict[str, Any]] = []
        self._readers = [threading.Thread(target=self._read, daemon=True)]
        if kind == KCAT:
            self._readers.append(threading.Thread(target=self._read_kcats_words, daemon=True))
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if self.kind == KCAT:
                topic, partition, offset = line.split()
                self._note("records", of=[[topic, int(partition), int(offset)]])
            else:
                self.events.append(json.loads(line))

    def _read_kcats_words(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = re.search(r"rebalanced \(memberid [^)]*\): (assigned|revoked): (.*)", line)
            if found:
                partitions = [[name, int(number)] for name, number in re.findall(r"(\S+) \[(\d+)\]", found[2])]
                self._note(found[1], partitions=partitions)

    def _note(self, what: str, **fields: Any) -> None:
        self.events.append({"at": time.monotonic(), "what": what, **fields})

    def of(self, what: str) -> list[dict[str, Any]]:
        """All events of a kind."""
        return [event for event in list(self.events) if event["what"] == what]

    def holds(self) -> set[Place]:
        """The partitions that it has now, by its own words."""
        held: set[Place] = set()
        for event in list(self.events):
            if event["what"] == "assigned":
                held |= {(topic, number) for topic, number in event["partitions"]}
            elif event["what"] == "revoked":
                held -= {(topic, number) for topic, number in event["partitions"]}
        return held

    def rebalances(self) -> int:
        """How often it was given or taken something."""
        return len(self.of("assigned")) + len(self.of("revoked"))

    def leave(self) -> None:
        """Let it leave the group, and wait for its end."""
        if self.kind == KCAT:
            self.process.send_signal(signal.SIGTERM)
        else:
            assert self.process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write("leave\n")
                self.process.stdin.flush()
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # a Python member prints its threads
            self.process.wait()
            pytest.fail(f"{self.kind} did not leave in 30 s; its last events: {str(self.events[-4:])[-2000:]}")
        assert code == 0, f"{self.kind} ended with {code}"
        self._end()

    def kill(self) -> None:
        """SIGKILL: the group is not told."""
        self.process.kill()
        self.process.wait()
        self._end()

    def _end(self) -> None:
        for reader in self._readers:
            reader.join(10)


class Group:
    """A group id, its members, living and gone. A context manager."""

    def __init__(self, bootstrap: str, name: str, *topics: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.topics = topics
        self.members: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            if member.process.poll() is None:
                member.process.kill()
                member.process.wait()

    def start(self, kind: str, *topics: str, strategy: str = "range", **asked: Any) -> Member:
        """One more member."""
        topics = topics or self.topics
        if kind == KCAT:
            argv = self._kcat(topics, strategy)
        else:
            asked = {"session_ms": SESSION_MS, "strategy": strategy, **asked}
            argv = [sys.executable, MEMBER, kind, self.bootstrap, self.name, ",".join(topics), json.dumps(asked)]
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if kind == KCAT else None,
            text=True,
        )
        self.members.append(Member(kind, process))
        return self.members[-1]

    def _kcat(self, topics: tuple[str, ...], strategy: str) -> list[str]:
        settings = {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 300,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 50,
            "partition.assignment.strategy": strategy,
            "fetch.wait.max.ms": 50,
        }
        argv = [str(shutil.which("kcat")), "-b", self.bootstrap, "-u", "-f", "%t %p %o\\n"]
        for name, value in settings.items():
            argv += ["-X", f"{name}={value}"]
        return [*argv, "-G", self.name, *topics]

    # ---------------------------------------------------------------------------------------------- what they have

    def wait_shared(self, partitions: int, *sharers: Member) -> None:
        """Wait until these hold all partitions of the topics, each of them at least one and no two the same."""

        def is_shared() -> bool:
            held = [member.holds() for member in sharers]
            return all(held) and sum(map(len, held)) == len(set().union(*held)) == partitions

        try:
            wait_until(is_shared, f"{len(sharers)} members share {partitions} partitions", 60)
        except AssertionError as late:
            raise AssertionError(f"{late}: {[sorted(member.holds()) for member in sharers]}") from None

    def seen(self) -> set[tuple[str, int, int]]:
        """Every record that any member was given."""
        return {(t, p, o) for member in self.members for event in member.of("records") for t, p, o in event["of"]}

    def wait_seen(self, load: SteadyLoad, topic: str) -> None:
        """Wait until everything that the load had acknowledged was given to a member."""
        wanted = {
            (topic, partition, offset)
            for partition, offsets in load.offsets.items()
            for offset in offsets
            if offset is not None
        }
        try:
            wait_until(lambda: wanted <= self.seen(), "every record was given to a member", 30)
        except AssertionError as late:
            missing = sorted(wanted - self.seen())
            raise AssertionError(f"{late}: {len(missing)} missing, the first {missing[:5]}") from None

    def wait_progress(self, count: int = 20, *members: Member) -> None:
        """Wait until each of these (or the group as a whole) was given so many records more than now."""
        parts = [[member] for member in members] or [self.members]

        def given(some: list[Member]) -> int:
            return sum(len(event["of"]) for member in some for event in member.of("records"))

        goals = [given(some) + count for some in parts]
        wait_until(
            lambda: all(given(some) >= goal for some, goal in zip(parts, goals, strict=True)), "records come in", 30
        )

    def story(self) -> Iterator[tuple[Member, dict[str, Any]]]:
        """All events of all members in the order in which they happened."""
        told = [(event["at"], number, event) for number, member in enumerate(self.members) for event in member.events]
        for _at, number, event in sorted(told, key=lambda each: each[:2]):
            yield self.members[number], event

    def committed(self) -> dict[Place, int]:
        """The highest commit of each partition that was acknowledged to a member."""
        highest: dict[Place, int] = {}
        for _member, event in self.story():
            if event["what"] == "committed":
                for topic, partition, offset in event["of"]:
                    highest[topic, partition] = max(offset, highest.get((topic, partition), -1))
        return highest

    def check(self) -> None:
        """No record was given out again after a commit beyond it was acknowledged."""
        acknowledged: dict[Place, int] = {}
        for member, event in self.story():
            if event["what"] == "committed":
                for topic, partition, offset in event["of"]:
                    acknowledged[topic, partition] = max(offset, acknowledged.get((topic, partition), -1))
            elif event["what"] == "records":
                for topic, partition, offset in event["of"]:
                    reached = acknowledged.get((topic, partition), -1)
                    assert offset >= reached, (
                        f"{member.kind} was given {topic}-{partition}@{offset}; {reached} was committed\n"
                        + "\n".join(self._told_of(topic, partition))
                    )

    def _told_of(self, topic: str, partition: int) -> Iterator[str]:
        """What each member said of a partition, in order."""
        for member, event in self.story():
            listed = event.get("of") or event.get("partitions") or []
            offsets = [place[2:] for place in listed if place[:2] == [topic, partition]]
            if offsets:
                first_and_last = [offset for place in (offsets[0], offsets[-1]) for offset in place]
                yield f"{event['at']:.3f} member {self.members.index(member)} {event['what']} {first_and_last}"
