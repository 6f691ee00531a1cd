"""How many events a second of processor time the simulator runs, and the traces, which a faster one must not change.

python benchmarks/bench_sim.py [--seeds 12] [--brokers 1 3] [--metadata redis]
"""

from __future__ import annotations

import argparse
import hashlib
import time

from yak.commands.sim import collect_seldom
from yak.sim.spec import METADATA, Spec
from yak.sim.trial import run_spec


def measure(brokers: int, seeds: int, metadata: str) -> None:
    traces = hashlib.sha256()
    events = 0
    run_spec(Spec(seeds + 1, brokers, metadata=metadata))  # imports, and caches that fill once
    collect_seldom()
    begin = time.process_time()
    for seed in range(1, seeds + 1):
        report = run_spec(Spec(seed, brokers, metadata=metadata))
        assert report.error is None, report.error
        events += report.events_count
        traces.update(report.trace_hash.encode())
    took_s = time.process_time() - begin
    rate = f"{events / took_s:,.0f} events a processor second"
    print(f"{brokers} brokers, {metadata}: {events} events in {took_s:.2f} s: {rate}, traces {traces.hexdigest()[:12]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--brokers", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--metadata", choices=METADATA, default="redis")
    given = parser.parse_args()
    for brokers in given.brokers:
        measure(brokers, given.seeds, given.metadata)


if __name__ == "__main__":
    main()
