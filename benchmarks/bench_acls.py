"""What ACLs cost: steps of Fetch and Produce with and without them, alternated, and single decisions.

    python benchmarks/bench_acls.py [--acls N] [--topics N] [--rounds N]

The broker is the simulator's, in this process; the disk is memory. Times are of the processor, of this thread.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

from yak.acls.authorizer import Authorizer
from yak.acls.bindings import (
    AccessControlEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    encode_entry,
    encode_pattern,
)
from yak.core.events import ConnectionOpened, FrameReceived
from yak.sim.request_fields import build, fetch_fields, produce_fields
from yak.sim.wire import record_batch, request_class, request_frame

sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.rig import Rig

STEPS = 2_000
CONNECTION = 900


def acls(count: int) -> dict[str, dict[str, str]]:
    """ACLs of as many users and topics, half of them prefixed, and those of the user that is measured."""
    found: dict[str, dict[str, str]] = {}
    for number in range(count):
        pattern_type = PatternType.PREFIXED if number % 2 else PatternType.LITERAL
        pattern = ResourcePattern(ResourceType.TOPIC, f"topic-{number}", pattern_type)
        entry = AccessControlEntry(f"User:user{number}", "*", Operation.ALL, Permission.ALLOW)
        found[encode_pattern(pattern)] = {encode_entry(entry): ""}
    mine = ResourcePattern(ResourceType.TOPIC, "mine", PatternType.PREFIXED)
    entry = AccessControlEntry("User:ann", "*", Operation.ALL, Permission.ALLOW)
    return found | {encode_pattern(mine): {encode_entry(entry): ""}}


class Measured:
    def __init__(self, topics: int) -> None:
        self.rig = Rig()
        for number in range(topics):
            self.rig.create_topic(f"mine{number}")
        self.broker = self.rig.node.broker
        self.broker.step(ConnectionOpened(CONNECTION, "10.0.0.1:5000", principal="User:ann"), self.rig.world.now_ms)

    def use(self, stored: dict[str, dict[str, str]] | None) -> None:
        self.broker.authorization.is_active = stored is not None
        self.broker.authorization.authorizer.set_acls(stored or {})

    def step_us(self, frame: bytes) -> float:
        broker, now_ms = self.broker, self.rig.world.now_ms
        event = FrameReceived(CONNECTION, memoryview(frame))
        began_ns = time.thread_time_ns()
        for _ in range(STEPS):
            broker.step(event, now_ms)
        return (time.thread_time_ns() - began_ns) / STEPS / 1000


def frames(topics: int) -> dict[str, bytes]:
    """A Produce of one record to one topic, and Fetches of one topic and of all, which have no new records."""
    produce = build(request_class(0, 9), produce_fields("mine0", record_batch([b"v" * 100], 0), acks=1))
    one = fetch_fields("mine0", 0)
    (topic,) = one["topics"]
    for partition in topic["partitions"]:
        partition["fetch_offset"] = 0
    every = one | {"topics": [topic | {"topic": f"mine{number}"} for number in range(1, topics)]}
    return {
        "Produce, 1 topic": request_frame(0, 9, 1, produce),
        f"Fetch, {topics - 1} topics": request_frame(1, 12, 1, build(request_class(1, 12), every)),
        "Fetch, 1 topic": request_frame(
            1, 12, 1, build(request_class(1, 12), one | {"topics": [topic | {"topic": "mine1"}]})
        ),
    }


def decisions(stored: dict[str, dict[str, str]]) -> None:
    authorizer = Authorizer((), allows_without_acl=False)
    began_ns = time.thread_time_ns()
    authorizer.set_acls(stored)
    print(f"{'put ' + str(len(stored)) + ' ACLs in force':32} {(time.thread_time_ns() - began_ns) / 1e6:8.1f} ms")
    for what, names in (("first decision", [f"mine{n}" for n in range(STEPS)]), ("remembered", ["mine0"] * STEPS)):
        began_ns = time.thread_time_ns()
        for name in names:
            authorizer.authorize("User:ann", "10.0.0.1", Operation.READ, ResourceType.TOPIC, name)
        print(f"{what:32} {(time.thread_time_ns() - began_ns) / STEPS / 1000:8.2f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--acls", type=int, default=1_000)
    parser.add_argument("--topics", type=int, default=101)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    stored = acls(arguments.acls)
    decisions(stored)
    measured = Measured(arguments.topics)
    print(f"\n{'a step':32} {'without':>8} {'with':>8}")
    for what, frame in frames(arguments.topics).items():
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(arguments.rounds):
            for is_on in (False, True):
                measured.use(stored if is_on else None)
                times[is_on].append(measured.step_us(frame))
        without, with_acls = (statistics.median(times[is_on]) for is_on in (False, True))
        print(f"{what:32} {without:8.1f} {with_acls:8.1f} us")


if __name__ == "__main__":
    main()
