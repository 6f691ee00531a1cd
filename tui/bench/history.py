"""Earlier benchmark runs, in a file that outlives the session."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

KEPT: Final = 200
FILE: Final = "bench-runs.jsonl"
_LEFT_OUT: Final = ("histogram", "per_client", "asserts", "compared", "client")


@dataclass(frozen=True, slots=True)
class BenchRun:
    """A finished run. `result` is the output of `yak bench -o json` without its histogram."""

    time_ms: int
    kind: str
    values: dict[str, str]
    command: str
    result: dict[str, Any]
    cluster: str = ""

    def is_like(self, other: "BenchRun") -> bool:
        """Whether two runs are comparable: the same benchmark, options and cluster."""
        return (self.kind, self.values, self.cluster) == (other.kind, other.values, other.cluster)


def run_of(
    time_ms: int, kind: str, values: Mapping[str, str], command: str, result: Mapping[str, Any], cluster: str
) -> BenchRun:
    """A finished run, reduced to the data worth saving."""
    kept = {name: value for name, value in result.items() if name not in _LEFT_OUT}
    return BenchRun(time_ms, kind, dict(values), command, kept, cluster)


def before(runs: Sequence[BenchRun], run: BenchRun) -> BenchRun | None:
    """The latest earlier run that is comparable."""
    return max(
        (each for each in runs if each.time_ms < run.time_ms and each.is_like(run)),
        key=lambda each: each.time_ms,
        default=None,
    )


def state_dir(environment: Mapping[str, str] | None = None) -> Path:
    """`~/.local/state/yak`, or the same under XDG_STATE_HOME."""
    env = os.environ if environment is None else environment
    return Path(env.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")) / "yak"


def load(folder: Path) -> list[BenchRun]:
    """All saved runs, oldest first; unreadable lines are skipped."""
    try:
        lines = (folder / FILE).read_text("utf-8").splitlines()
    except OSError:
        return []
    found: list[BenchRun] = []
    for line in lines[-KEPT:]:
        with suppress(ValueError, TypeError):
            found.append(BenchRun(**json.loads(line)))
    return found


def save(folder: Path, run: BenchRun) -> None:
    """Append a run, and shorten the file at twice the limit.

    Write errors are ignored: the run is only missing next time.
    """
    path = folder / FILE
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(run)) + "\n")
        lines = path.read_text("utf-8").splitlines()
        if len(lines) > 2 * KEPT:
            fresh = path.with_name(f"{FILE}.tmp")
            fresh.write_text("\n".join(lines[-KEPT:]) + "\n", "utf-8")
            fresh.replace(path)
