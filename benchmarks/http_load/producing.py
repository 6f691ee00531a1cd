"""Kafka producers in a process of their own: at full speed, or at a fixed rate with the time of each acknowledgement."""

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

VALUE = b"x" * 100


def in_process(work: Callable[..., Any], *arguments: object) -> Any:
    """Run `work` in a new process and give what it returns."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_run, args=(theirs, work, arguments))
    process.start()
    theirs.close()
    try:
        found = ours.recv()
    finally:
        process.join()
    if isinstance(found, BaseException):
        raise found
    return found


def _run(out: Connection, work: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    try:
        out.send(work(*arguments))
    except BaseException as error:
        out.send(RuntimeError(repr(error)))


def full_speed(bootstrap: str, topic: str, seconds: float, batch_bytes: int) -> float:
    """Records of 100 bytes acknowledged in a second, with as many under way as the client likes."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 0,
            "batch.size": batch_bytes,
            "acks": "all",
            "queue.buffering.max.messages": 20_000,
        }
    )
    acknowledged = 0

    def told(error: object, _message: object) -> None:
        nonlocal acknowledged
        assert error is None, error
        acknowledged += 1

    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        try:
            producer.produce(topic, VALUE, on_delivery=told)
        except BufferError:
            producer.poll(0.01)
        producer.poll(0)
    counted = acknowledged
    producer.flush(30)
    return counted / seconds


def fixed_rate(bootstrap: str, topic: str, seconds: float, per_second: int) -> list[float]:
    """The time from produce to acknowledgement of each record in ms, sorted; `per_second` records in a second, one by one."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    latencies: list[float] = []

    def told(started: float) -> Callable[[object, object], None]:
        def on_delivery(error: object, _message: object) -> None:
            assert error is None, error
            latencies.append((time.perf_counter() - started) * 1000)

        return on_delivery

    producer.produce(topic, VALUE)
    producer.flush(30)
    started = time.perf_counter()
    sent = 0
    while (elapsed := time.perf_counter() - started) < seconds:
        due = int(elapsed * per_second)
        while sent < due:
            producer.produce(topic, VALUE, on_delivery=told(time.perf_counter()))
            sent += 1
        producer.poll(0.0002)
    producer.flush(30)
    return sorted(latencies)
