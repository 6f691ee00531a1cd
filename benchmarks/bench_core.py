"""What a request costs in the core alone: frames into `Broker.step` on a disk in memory.

Run: .venv/bin/python benchmarks/bench_core.py [--profile]
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import time
from pathlib import Path

from yak.core import events
from yak.sim.wire import record_batch, request_class, request_frame

sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.cluster_rig import ClusterRig
from tests.rig import Rig, build, fetch_fields, produce_fields

ROUNDS = 7
REQUESTS = 5_000


def frame_of(api_key: int, version: int, fields: dict) -> memoryview:
    return memoryview(request_frame(api_key, version, 1, build(request_class(api_key, version), fields)))


def measure(name: str, broker, connection_id: int, frame: memoryview, now_ms: int, turn: int = 20) -> None:
    best = []
    event = events.FrameReceived(connection_id, frame)
    end = events.TurnEnd()
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for number in range(REQUESTS):
            broker.step(event, now_ms)
            if number % turn == turn - 1:
                broker.step(end, now_ms)
        best.append((time.perf_counter() - started) / REQUESTS * 1e6)
    best.sort()
    print(f"{name:44} {best[0]:6.2f} us best  {best[len(best) // 2]:6.2f} us median")


def measure_follower() -> None:
    """A follower's step for one answer of its leader: it appends a batch, and sends the next fetch."""
    rig = ClusterRig(size=2)
    rig.create_topic("orders", replication_factor=2)
    follower = rig.nodes[rig.followers("orders")[0] - 1].broker
    assert follower is not None
    step, taken_us = follower.step, list[float]()

    def timed(event: events.Event, now_ms: int) -> list[events.Effect]:
        started = time.perf_counter()
        effects = step(event, now_ms)
        if type(event) is events.PeerAnswered:
            taken_us.append((time.perf_counter() - started) * 1e6)
        return effects

    follower.step = timed  # type: ignore[method-assign]
    for _ in range(REQUESTS):
        rig.produce("orders", [b"x" * 100])
    taken_us.sort()
    tenth, median = taken_us[len(taken_us) // 10], taken_us[len(taken_us) // 2]
    print(f"{'follower, answer of 1 x 100 B':44} {tenth:6.2f} us best tenth  {median:6.2f} us median")


def main() -> None:
    rig = Rig()
    rig.create_topic("orders", partitions=1)
    broker = rig.node.broker
    assert broker is not None
    connection_id = rig.client.connection_id
    now_ms = rig.world.now_ms
    one = frame_of(0, 9, produce_fields("orders", record_batch([b"x" * 100], now_ms)))
    bulk = frame_of(0, 9, produce_fields("orders", record_batch([b"x" * 100] * 100, now_ms)))
    fetch = frame_of(1, 12, fetch_fields("orders", 0))
    if "--profile" in sys.argv:
        profile = cProfile.Profile()
        profile.enable()
        measure("produce 1 x 100 B", broker, connection_id, one, now_ms)
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    measure("produce 1 x 100 B, acks=all", broker, connection_id, one, now_ms)
    measure("produce 100 x 100 B, acks=all", broker, connection_id, bulk, now_ms)
    measure("fetch 1 partition, 1 MB", broker, connection_id, fetch, now_ms)
    empty = frame_of(1, 12, fetch_fields("orders", broker.partitions["orders", 0].high_watermark))
    measure("fetch 1 partition, nothing there", broker, connection_id, empty, now_ms)
    measure_follower()


if __name__ == "__main__":
    main()
