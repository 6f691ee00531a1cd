"""One benchmark from its load to its result."""

from collections.abc import Callable

from yak.client.admin import Admin
from yak.client.bench.clients import run_load
from yak.client.bench.load import STAMP_BYTES, Load, Slice
from yak.client.bench.recent import Moment
from yak.client.bench.result import Result
from yak.client.bench.topics import divide, ensure_topic, new_slices, offsets_grown, slices_of
from yak.client.bench.workload import readers_slices
from yak.errors import UsageError


def run_benchmark(
    load: Load,
    partitions: int | None = None,
    *,
    on_start: Callable[[], None] = lambda: None,
    on_progress: Callable[[int], None] = lambda _records: None,
    on_moment: Callable[[Moment], None] | None = None,
) -> Result:
    """Create or find the topic, run the clients, and count.

    Raises Unreachable, UsageError (`bench-partitions`, `bench-empty`, `bench-size`), YakError.
    """
    if load.kind == "e2e" and load.size_bytes < STAMP_BYTES:
        raise UsageError(
            "bench-size",
            f"end-to-end records need {STAMP_BYTES} bytes or more",
            why="each carries its sender's name and the time it was due",
            try_=(f"--size {STAMP_BYTES}",),
        )
    admin = Admin(load.bootstrap_servers)
    if load.kind == "consume":
        before = slices_of(admin, load.topic)
    else:
        ensure_topic(admin, load.topic, partitions)
        before = new_slices(admin, load.topic)
    shares = shares_of(load, before)
    results = run_load(load, shares, on_start=on_start, on_progress=on_progress, on_moment=on_moment)
    if load.kind in ("consume", "e2e"):
        return Result(load, results)
    stored = offsets_grown(admin, load.topic, before) - sum(each.warm_up_records for each in results)
    producers = load.clients - load.readers
    return Result(load, results[:producers], stored, results[producers:])


def shares_of(load: Load, slices: tuple[Slice, ...]) -> list[tuple[Slice, ...]]:
    """The slices for each client to read. Raises UsageError (`bench-empty`) when there are none."""
    if load.kind == "e2e":
        return [(slices[client % len(slices)],) for client in range(load.clients)]
    if load.kind != "consume":
        return [()] * (load.clients - load.readers) + readers_slices(slices, load.readers)
    there = sum(each.records for each in slices)
    if there == 0 or (load.messages is not None and load.messages > there):
        raise UsageError(
            "bench-empty",
            f"topic {load.topic} holds {there} records" + (f", not {load.messages}" if load.messages else ""),
            try_=(f"yak bench produce --topic {load.topic} --msgs {load.messages or 1000000}",),
        )
    return divide(slices, load.clients, load.messages)
