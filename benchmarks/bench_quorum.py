"""A metadata quorum of three brokers on this machine, against Redis. Run by hand:

    .venv/bin/python benchmarks/bench_quorum.py [--rounds N] [--part start|elections|topics|idle]

start      from the start of three processes (with Redis: of four) to the first record that three replicas acknowledge
elections  from kill -9 of the quorum's leader to the next leader, by the brokers' logs
topics     CreateTopics of one topic with three replicas, one after the other: median and p99 in ms
idle       processor time of all brokers in percent of a core, with 1,000 idle partitions on three replicas
"""

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from confluent_kafka import Producer

from yak.client.admin import Admin
from yak.client.quorum import QuorumState, describe_quorum
from yak.local.bench.fleet import LocalFleet, own_fleet, used_between
from yak.local.cluster import UpSettings
from yak.local.demo.failover import elected_at
from yak.local.supervise import LogFollower

BROKERS = 3
STORES = ("raft", "redis")
ASK_S = 10.0


def cluster(metadata: str) -> AbstractContextManager[LocalFleet]:
    return own_fleet(BROKERS, UpSettings(metadata=metadata, no_http=True, configs=("offsets.topic.num.partitions=1",)))


def start_ms(metadata: str) -> float:
    """From the start of the processes to the first record that all replicas acknowledge."""
    began = time.perf_counter()
    with cluster(metadata) as made:
        Admin(made.bootstrap).create_topic("first", partitions=1, replication_factor=BROKERS)
        acknowledged: list[object] = []
        producer = Producer({"bootstrap.servers": made.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
        producer.produce("first", b"x", on_delivery=lambda error, _message: acknowledged.append(error))
        producer.flush(10)
        assert acknowledged == [None], acknowledged
        return (time.perf_counter() - began) * 1e3


def quorum(made: LocalFleet) -> QuorumState:
    running = next(each for each in made.status().brokers if each.state == "running")
    return describe_quorum(running.address, timeout_s=ASK_S)


def election_ms(rounds: int) -> list[float]:
    """Kill the quorum's leader again and again, and start it again."""
    found = []
    with cluster("raft") as made:
        for _ in range(rounds):
            time.sleep(0.5)
            leader = quorum(made).leader_id
            logs = LogFollower({name: path for name, path in made.log_paths().items() if name.startswith("node-")})
            killed = time.time()
            made.kill(leader)
            while (after := quorum(made)).leader_id == leader:
                time.sleep(0.01)
            at_s = [at for _, line in logs.new_lines() if (at := elected_at(line, after.epoch)) is not None]
            found.append((min(at_s) - killed) * 1e3)
            made.restart(leader)
    return found


def topics_ms(metadata: str, count: int) -> list[float]:
    with cluster(metadata) as made:
        time.sleep(1)
        admin, found = Admin(made.bootstrap), []
        for number in range(count):
            began = time.perf_counter()
            admin.create_topic(f"t{number}", partitions=1, replication_factor=BROKERS)
            found.append((time.perf_counter() - began) * 1e3)
        return found


def idle_percent(metadata: str, seconds: float) -> float:
    """Processor time of all brokers with 1,000 idle partitions, in percent of a core."""
    with cluster(metadata) as made:
        Admin(made.bootstrap, timeout_ms=60_000).create_topic("many", partitions=1_000, replication_factor=BROKERS)
        time.sleep(10)
        before = made.cpu_seconds()
        time.sleep(seconds)
        used = used_between(before, made.cpu_seconds())
        return sum(used_s for name, used_s in used.items() if name != "redis") / seconds * 100


def show(part: str, store: str, times_ms: list[float]) -> None:
    p99 = sorted(times_ms)[min(len(times_ms) - 1, round(len(times_ms) * 0.99))]
    print(f"{part:10} {store:5}  median {statistics.median(times_ms):6.1f} ms  p99 {p99:6.1f} ms", flush=True)


def start(rounds: int) -> None:
    times = [(store, start_ms(store)) for _ in range(rounds) for store in STORES]
    for store in STORES:
        show("start", store, [each for name, each in times if name == store])


def elections(rounds: int) -> None:
    show("elections", "raft", election_ms(rounds))


def topics(_rounds: int) -> None:
    for store in (*STORES, *STORES):
        show("topics", store, topics_ms(store, 200))


def idle(_rounds: int) -> None:
    for store in STORES:
        print(f"idle       {store:5}  {idle_percent(store, 20):5.2f} % of a core", flush=True)


PARTS: dict[str, Callable[[int], None]] = {"start": start, "elections": elections, "topics": topics, "idle": idle}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--part", choices=PARTS)
    arguments = parser.parse_args()
    for name, run in PARTS.items():
        if arguments.part in (None, name):
            run(arguments.rounds)


if __name__ == "__main__":
    main()
