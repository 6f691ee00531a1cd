"""Record a cluster for the tests and pictures of the terminal UI: `python tests/tui/record.py`.

Three brokers under load, a leader that is killed and comes back, another that is killed at the end; what /api/events
told meanwhile, and what the paths in PATHS answered then, go to tests/tui/recorded/cluster.json.
"""

import asyncio
import json
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from yak.client.admin import Admin
from yak.errors import YakError
from yak.local.cluster import LocalCluster, UpSettings
from yak.tui.source.live import LiveSource

ROOT = Path(__file__).parent
OUT = ROOT / "recorded" / "cluster.json"
SECONDS = 48.0
RATE = 400
PATHS = (
    "/api/cluster",
    "/api/isr",
    "/api/groups",
    "/api/groups/billing",
    "/api/groups/audit",
    "/api/partitions/orders/0",
    "/api/partitions/orders/1",
    "/api/partitions/orders/2",
    "/topics",
    "/topics?internal=true",
    "/topics/orders",
    "/topics/payments",
    "/topics/audit-log",
    "/metadata/log?from=1&limit=200",
    "/metadata/log",
    "/metadata/image",
    "/metadata/image?at=5",
)


def order(number: int, rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A key and a value."""
    user = f"u{rng.randrange(100):02}"
    value = {
        "order": number,
        "user": user,
        "total": round(rng.random() * 200, 2),
        "currency": rng.choice(("EUR", "USD", "GBP")),
    }
    return user, value


def produce(bootstrap: str, stop: threading.Event) -> None:
    """The load."""
    rng = random.Random(6)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20})
    number = 0
    while not stop.wait(0.05):
        for _ in range(RATE // 20):
            key, value = order(number, rng)
            topic = "payments" if number % 5 == 0 else "orders"
            producer.produce(topic, json.dumps(value), key, headers=[("source", b"shop-1")])
            number += 1
        producer.poll(0)
    producer.flush(5)


def consume(bootstrap: str, group: str, topic: str, stop: threading.Event, share: float) -> None:
    """A member of a group that reads a share of what comes."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "client.id": f"{group}-{threading.get_ident() % 97}",
        }
    )
    consumer.subscribe([topic])
    while not stop.is_set():
        consumer.consume(max(1, int(RATE * share / 10)), 0.1)
        time.sleep(0.05)
    consumer.close()


async def record(local: LocalCluster, bootstrap: str) -> dict[str, Any]:
    """Listen while things happen; then ask."""
    source = LiveSource(bootstrap)
    events: list[dict[str, Any]] = []
    began = time.monotonic()
    plan = [(18.0, lambda: local.kill(2)), (24.0, lambda: local.restart(2)), (SECONDS - 4.0, lambda: local.kill(3))]

    async def listen() -> None:
        async for event in source.follow():
            events.append(event)  # noqa: PERF401 - all at once it never ends

    listening = asyncio.create_task(listen())
    while time.monotonic() - began < SECONDS:
        await asyncio.sleep(0.1)
        if plan and time.monotonic() - began > plan[0][0]:
            await asyncio.to_thread(plan.pop(0)[1])
    listening.cancel()
    answers: dict[str, Any] = {}
    for path in PATHS:
        plain, _, query = path.partition("?")
        params = dict(each.split("=") for each in query.split("&")) if query else None
        try:
            answers[f"GET {path}"] = await source.ask("GET", plain, params=params)
        except YakError as error:
            print(f"{path}: {error.message}")
    await source.close()
    return {"answers": answers, "events": thinned(events), "now_ms": events[-1]["time_ms"] + 200}


def thinned(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of progress only the last seconds: it is most of the bytes, and says nothing before."""
    last_ms = events[-1]["time_ms"]
    return [each for each in events if each["kind"] != "progress" or each["time_ms"] > last_ms - 3_000]


def main() -> int:
    """All of it."""
    local = LocalCluster(tempfile.mkdtemp(prefix="yak-record-"))
    stop = threading.Event()
    threads = []
    try:
        local.up(UpSettings(port=0, http_port=0, brokers=3, leaders=3, configs=("offsets.topic.num.partitions=4",)))
        bootstrap = local.status().bootstrap
        ports = {each.node_id: str(each.http_address).rpartition(":")[2] for each in local.status().brokers}
        admin = Admin(bootstrap)
        admin.create_topic(
            "orders",
            partitions=3,
            replication_factor=3,
            configs={"min.insync.replicas": "2", "retention.ms": "86400000"},
        )
        admin.create_topic("payments", partitions=2, replication_factor=3, configs={"min.insync.replicas": "2"})
        admin.create_topic("audit-log", partitions=1, replication_factor=2, configs={"retention.ms": "604800000"})
        jobs = [(produce, (bootstrap, stop))]
        jobs += [(consume, (bootstrap, "billing", "orders", stop, 1.0)) for _ in range(2)]
        jobs.append((consume, (bootstrap, "audit", "payments", stop, 0.1)))
        threads = [threading.Thread(target=job, args=arguments, daemon=True) for job, arguments in jobs]
        for thread in threads:
            thread.start()
        found = asyncio.run(record(local, bootstrap))
        text = json.dumps(found, separators=(",", ":"), ensure_ascii=False)
        for broker in local.status().brokers:
            text = text.replace(broker.address.rpartition(":")[2], str(9091 + broker.node_id))
            text = text.replace(ports[broker.node_id], str(8079 + broker.node_id))
        OUT.write_text(text + "\n", encoding="utf-8")
        print(f"{OUT}: {OUT.stat().st_size} bytes, {len(found['events'])} events")
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
        local.discard()
    return 0


if __name__ == "__main__":
    sys.exit(main())
