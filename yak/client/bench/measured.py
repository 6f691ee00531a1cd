"""A load with the CPU that the measured processes used meanwhile."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from yak.client.bench.cpu import used_between
from yak.client.bench.load import Load
from yak.client.bench.result import Result
from yak.client.bench.run import run_benchmark
from yak.errors import YakError


@dataclass(frozen=True, slots=True)
class Measured:
    """One run. `cpu_s` is by process name, from the clients' start to their end; empty when not measurable."""

    result: Result
    cpu_s: Mapping[str, float]

    @property
    def per_s(self) -> float:
        """Records per second."""
        return self.result.records_per_s

    @property
    def cpu_total_s(self) -> float:
        """CPU seconds of all processes."""
        return sum(self.cpu_s.values())

    @property
    def gigabytes(self) -> float:
        """Gigabytes (10^9 bytes) of values."""
        return self.result.bytes / 1e9

    @property
    def cpu_s_per_gb(self) -> float:
        """CPU seconds of all processes per gigabyte of values."""
        return self.cpu_total_s / self.gigabytes if self.gigabytes else 0.0

    @property
    def client_limited(self) -> bool:
        """Whether the clients could not have gone faster."""
        return bool(self.result.client_limit())


def measure(load: Load, cpu_seconds: Callable[[], Mapping[str, float]]) -> Measured:
    """Run the load and read the CPU clocks before and after.

    Raises YakError (`bench-errors` when records failed), or the load's errors.
    """
    before: dict[str, float] = {}
    result = run_benchmark(load, on_start=lambda: before.update(cpu_seconds()))
    used = used_between(before, cpu_seconds())
    if result.errors:
        raise YakError(
            "bench-errors", f"{result.errors} records of the load on {load.topic} failed", why=result.first_error
        )
    return Measured(result, used)
