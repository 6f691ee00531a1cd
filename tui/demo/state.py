"""The state that the demo's supervisor has reported. Pure."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from yak.errors import YakError
from yak.local.demo.delivery_statistics import Counts, Pause

Phase = Literal["starting", "running", "failed", "ended"]

_PAUSES_MAX: Final = 1_000  # a slow machine reports dozens a second, and a failover must stay visible for a while
_RATE_MS: Final = 2_000
_COUNTS: Final = tuple(Counts.__dataclass_fields__)


@dataclass(slots=True)
class DemoState:
    """The reported state: `take` applies a line."""

    phase: Phase = "starting"
    step: str = "starting"
    bootstrap: str = ""
    http: dict[int, str] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    counted_ms: int | None = None
    rate: float = 0.0
    """Acknowledgements per second over the last two seconds."""
    gone: tuple[str, ...] = ()
    last_error: str = ""
    error: YakError | None = None
    pauses: deque[Pause] = field(default_factory=lambda: deque(maxlen=_PAUSES_MAX))
    _seen: deque[tuple[int, int]] = field(default_factory=deque)

    def take(self, line: dict[str, Any]) -> None:
        match line["kind"]:
            case "step":
                self.step = line["step"]
            case "ready":
                self.phase, self.step, self.bootstrap = "running", "running", line["bootstrap"]
                self.http = {int(node): address for node, address in line["http"].items()}
            case "counts" | "ended":
                self._count(line)
            case "pause":
                self.pauses.append(Pause(line["partition"], line["from_ms"], line["until_ms"]))
            case "error":
                self.phase = "failed"
                self.error = YakError(line["code"], line["message"], why=line["why"], try_=tuple(line["try_"]))

    def take_end(self, code: int | None, *, is_requested: bool = False) -> None:
        """Note that the supervisor's output has ended."""
        if is_requested:
            self.phase = "ended"
        elif self.phase in ("starting", "running"):
            message = "the demo's cluster and its clients are gone"
            how = "" if code is None else f"the process that kept them ended with code {code}"
            self.error = self.error or YakError("demo-ended", message, why=how, try_=("yak ui --demo",))
            self.phase = "failed"

    def _count(self, line: dict[str, Any]) -> None:
        self.counts = Counts(**{name: line[name] for name in _COUNTS})
        self.counted_ms = line["time_ms"]
        self.gone, self.last_error = tuple(line["gone"]), line["last_error"]
        if line["kind"] == "ended":
            self.phase = "ended"
        self._seen.append((line["time_ms"], self.counts.acknowledged))
        while len(self._seen) > 2 and line["time_ms"] - self._seen[0][0] > _RATE_MS:
            self._seen.popleft()
        (first_ms, first), (last_ms, last) = self._seen[0], self._seen[-1]
        self.rate = (last - first) * 1000.0 / (last_ms - first_ms) if last_ms > first_ms else 0.0
