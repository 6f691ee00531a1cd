"""One benchmark: `yak bench` as a child process, and its progress."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from yak.errors import YakError
from yak.local.broker_process import parse_error
from yak.local.spawn import yak_argv, yak_environment

STOP_SECONDS: Final = 30.0
_LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A result is one line of JSON that contains a histogram."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The progress at a time. Latencies cover the last half second; None if none was measured."""

    elapsed_s: float
    records: int
    rate: float
    p50_ms: float | None
    p99_ms: float | None


@dataclass(slots=True)
class BenchState:
    """The reported state of a run. Pure: `take` applies a line."""

    kind: str
    phase: str = "starting"
    """starting, running, done, failed or stopped."""
    samples: list[Sample] = field(default_factory=list)
    kills: list[dict[str, Any]] = field(default_factory=list)
    wanted: float | None = None
    """The total in seconds, records or kills; None if not reported."""
    wanted_unit: str = ""
    result: dict[str, Any] | None = None
    error: YakError | None = None

    @property
    def done_share(self) -> float | None:
        """The completed share, 0 to 1; None if unknown."""
        if not self.wanted:
            return None
        last = self.samples[-1] if self.samples else None
        done = {
            "s": last.elapsed_s if last else 0.0,
            "records": last.records if last else 0,
            "kills": len(self.kills),
        }.get(self.wanted_unit, 0)
        return min(done / self.wanted, 1.0)

    def take(self, line: Mapping[str, Any]) -> None:
        """Apply one line of progress."""
        match line.get("kind"):
            case "started":
                self.phase = "running"
                for name, unit in (("duration_s", "s"), ("messages", "records"), ("kills", "kills")):
                    if line.get(name):
                        self.wanted, self.wanted_unit = float(line[name]), unit
            case "progress":
                self._progress(line)
            case "kill":
                self.kills.append(dict(line))
            case _ if "error" in line:
                found = line["error"]
                self.error = YakError(
                    found["code"], found["message"], why=found.get("why", ""), try_=tuple(found.get("try", ()))
                )

    def _progress(self, line: Mapping[str, Any]) -> None:
        before_s, before = (self.samples[-1].elapsed_s, self.samples[-1].records) if self.samples else (0.0, 0)
        elapsed_s, records, latency = line["elapsed_s"], line["records"], line["latency_ms"]
        rate = (records - before) / (elapsed_s - before_s) if elapsed_s > before_s else 0.0
        sample = Sample(elapsed_s, records, rate, latency["p50"] or None, latency["p99"] or None)
        self.samples.append(sample)

    def take_end(self, code: int, out: bytes, other: str) -> None:
        """Note the end. `other` is the output besides JSON lines."""
        if self.phase == "stopped":
            return
        try:
            self.result = json.loads(out) if out.strip() else None
        except ValueError:
            self.result = None
        self.phase = "done" if self.result is not None else "failed"
        if self.phase == "failed" and self.error is None:
            last = other.strip().rpartition("\n")[2]
            self.error = parse_error(other, code) or YakError(
                "bench-client", f"yak bench ended with code {code}", why=last
            )


async def run_bench(words: list[str], state: BenchState, changed: Callable[[], None]) -> None:
    """Run the benchmark to its end; cancellation stops it. The outcome is in `state`."""
    child = await asyncio.create_subprocess_exec(
        *yak_argv(*words, "--progress-json", "-o", "json"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=yak_environment(),
        start_new_session=True,
        limit=_LINE_BYTES_MAX,
    )
    assert child.stdout is not None, "asked for above"
    assert child.stderr is not None, "asked for above"
    other: list[str] = []

    async def follow(stream: asyncio.StreamReader) -> None:
        async for line in stream:
            told = _told(line)
            if told is None:
                other.append(line.decode("utf-8", "replace"))
            else:
                state.take(told)
                changed()

    try:
        out, _ = await asyncio.gather(child.stdout.read(), follow(child.stderr))
        state.take_end(await child.wait(), out, "".join(other))
    except asyncio.CancelledError:
        state.phase = "stopped"
        await asyncio.shield(_end(child))
        raise
    finally:
        changed()


def _told(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


async def _end(child: asyncio.subprocess.Process) -> None:
    """SIGTERM, at which it stops its clients and brokers; SIGKILL if it does not react."""
    if child.returncode is not None:
        return
    child.terminate()
    try:
        await asyncio.wait_for(child.wait(), STOP_SECONDS)
    except TimeoutError:
        child.kill()
        await child.wait()
