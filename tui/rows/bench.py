"""Rows and lines of the bench screen. Pure."""

from collections.abc import Sequence
from typing import Any

from yak.tui.bench.history import BenchRun, before
from yak.tui.bench.plan import KINDS, settings_words
from yak.tui.bench.run import BenchState
from yak.tui.look import Look
from yak.tui.rows.cells import Cell, Column, Row, Tone
from yak.tui.widgets.plain import plain

KIND_COLUMNS = (Column("BENCHMARK", 10), Column("WHAT IT DOES", 20, most=80, flex=1))
COLUMNS = (
    Column("TIME", 10),
    Column("WHAT", 8),
    Column("RECORDS/s", 9, is_right=True),
    Column("MB/s", 6, is_right=True, rank=1),
    Column("p50 ms", 7, is_right=True),
    Column("p99 ms", 7, is_right=True),
    Column("MAX ms", 7, is_right=True, rank=2),
    Column("WRONG", 5, is_right=True),
    Column("BEFORE", 7, is_right=True),
    Column("CHOSEN", 10, most=60, flex=1, rank=3),
)
_DAY_MS = 20 * 3_600_000


def kind_rows() -> list[Row]:
    """The benchmarks."""
    return [Row(kind.name, (Cell(kind.name, "accent"), Cell(kind.words))) for kind in KINDS.values()]


def run_rows(runs: Sequence[BenchRun], look: Look, now_ms: float) -> list[Row]:
    """Runs, the newest first."""
    return [_row(run, before(runs, run), look, now_ms) for run in reversed(runs)]


def _row(run: BenchRun, earlier: BenchRun | None, look: Look, now_ms: float) -> Row:
    result, latency = run.result, run.result.get("latency_ms") or {}
    wrong = wrong_of(result)
    return Row(
        str(run.time_ms),
        (
            Cell(_when(run.time_ms, look, now_ms), "dim", run.time_ms),
            Cell(run.kind, "accent"),
            _figure(result.get("records_per_s"), look, 0),
            _figure(result.get("mb_per_s"), look, 1),
            _figure(latency.get("p50"), look, 2),
            _figure(latency.get("p99"), look, 2),
            _figure(latency.get("max"), look, 2),
            Cell(look.number(wrong), "bad" if wrong else "good", wrong),
            _ratio_cell(run, earlier, look),
            Cell(settings_words(KINDS[run.kind], run.values) if run.kind in KINDS else "", "dim"),
        ),
    )


def _when(time_ms: int, look: Look, now_ms: float) -> str:
    """The time for the last day, else the date."""
    if look.zone == "relative" or now_ms - time_ms < _DAY_MS:
        return look.time(time_ms, now_ms)
    return look.day_and_time(time_ms, now_ms)[:10]


def wrong_of(result: dict[str, Any]) -> int:
    """Records that failed, are lost, duplicated or out of order."""
    names = ("errors", "lost", "duplicated", "reordered", "moved", "seen_and_gone")
    return sum(int(result.get(name) or 0) for name in names)


def _figure(value: float | None, look: Look, digits: int) -> Cell:
    if value is None:
        return Cell(look.sign("none"), "dim", -1)
    return Cell(look.number(value) if digits == 0 else f"{value:.{digits}f}", order=value)


def ratio(run: BenchRun, earlier: BenchRun) -> tuple[float, bool] | None:
    """The ratio to the earlier run, and whether it is better: of the rate if it was not limited, else of p99."""
    is_free = run.kind == "consume" or (run.kind == "produce" and not run.values.get("throughput"))
    if is_free:
        now, then = run.result.get("records_per_s"), earlier.result.get("records_per_s")
    else:
        now = (run.result.get("latency_ms") or {}).get("p99")
        then = (earlier.result.get("latency_ms") or {}).get("p99")
    if not now or not then:
        return None
    return now / then, (now > then) is is_free


def _ratio_cell(run: BenchRun, earlier: BenchRun | None, look: Look) -> Cell:
    found = None if earlier is None else ratio(run, earlier)
    if found is None:
        return Cell(look.sign("none"), "dim", 0)
    value, is_better = found
    is_close = 0.95 <= value <= 1.05
    tone: Tone = "" if is_close else "good" if is_better else "warn"
    sign = "" if is_close else look.sign("good" if is_better else "warn")
    return Cell(f"{sign} {value:.2f}x".strip(), tone, value)


def live_lines(state: BenchState, command: str, look: Look, width: int) -> list[list[Cell]]:
    """The running benchmark: command, progress, rate, latency."""
    lines = [[Cell(line, "dim")] for line in plain(f"$ {command}", max(20, width - 2), 3)]
    share = state.done_share
    tones: dict[str, Tone] = {"done": "good", "failed": "bad", "stopped": "warn"}
    signs = {"done": "good", "failed": "bad", "stopped": "warn"}
    sign = f"{look.sign(signs[state.phase])} " if state.phase in signs else ""
    head = [Cell(f"{sign}{state.kind} {state.phase}", tones.get(state.phase, "accent"))]
    if share is not None and state.phase in ("starting", "running"):
        head += [Cell(look.bar(share, max(10, min(30, width - 40))), "accent"), Cell(f"{share * 100:.0f} %")]
    lines.append(head)
    if state.error is not None:
        lines.append([Cell(state.error.message, "bad")])
        lines += [[Cell(f"why: {state.error.why}")]] if state.error.why else []
        lines += [[Cell(f"try: {each}", "dim")] for each in state.error.try_[:2]]
        return lines
    if state.kind == "failover":
        return lines + _kill_lines(state, look)
    if state.result is not None:
        lines.append(_result_cells(state.result, look))
    elif state.samples:
        last = state.samples[-1]
        cells = [Cell(f"{look.number(last.records)} records", "strong"), Cell(f"now {look.rate(last.rate)}")]
        if last.p50_ms is not None and last.p99_ms is not None:
            cells.append(Cell(f"p50 {last.p50_ms:.2f} ms  p99 {last.p99_ms:.2f} ms"))
        lines.append(cells)
    return lines


def _result_cells(result: dict[str, Any], look: Look) -> list[Cell]:
    cells = [
        Cell(f"{look.number(result['records'])} records in {result['seconds']:.1f} s", "strong"),
        Cell(f"{look.number(result['records_per_s'])} records/s  {result['mb_per_s']:.1f} MB/s"),
    ]
    latency = result["latency_ms"]
    if latency:
        cells.append(Cell(f" p50 {latency['p50']:.2f} ms  p99 {latency['p99']:.2f} ms"))
    wrong = wrong_of(result)
    if wrong:
        cells.append(Cell(f" {look.sign('bad')} {look.number(wrong)} failed", "bad"))
    return cells


def _kill_lines(state: BenchState, look: Look) -> list[list[Cell]]:
    lines = []
    for kill in state.kills[-6:]:
        role = "the controller, which led" if kill["was_controller"] else "which led"
        led = ", ".join(str(each) for each in kill["partitions_led"])
        back = kill["isr_whole_after_ms"] / 1000
        words = f"{kill['number']} of {kill['of']}: broker {kill['node']}, {role} partition {led}"
        lines.append([Cell(words), Cell(f"in every ISR {back:.1f} s after its start", "dim")])
    result = state.result
    if result is None:
        return lines or [[Cell("three brokers of its own are started; this cluster is left alone", "dim")]]
    tone: Tone = "good" if result["holds"] else "bad"
    sign = look.sign("good" if result["holds"] else "bad")
    counts = ", ".join(
        f"{name} {look.number(result[name])}" for name in ("acknowledged", "lost", "duplicated", "reordered")
    )
    return [*lines, [Cell(f"{sign} {counts}", tone)]]


def result_text(run: BenchRun, earlier: BenchRun | None, look: Look, now_ms: float) -> str:
    """All figures of a run, beside those of the one before."""
    lines = [f"$ {run.command}", f"{look.day_and_time(run.time_ms, now_ms)}", ""]
    flat, old = _flat(run.result), _flat(earlier.result) if earlier is not None else {}
    width = max(map(len, flat), default=0)
    if earlier is not None:
        lines.append(f"{'':<{width}}  {'NOW':>16}  {'BEFORE':>16}")
    for name, value in flat.items():
        if not _text(value) and not _text(old.get(name)):
            continue
        before_text = f"  {_text(old.get(name)):>16}" if earlier is not None else ""
        lines.append(f"{name:<{width}}  {_text(value):>16}{before_text}".rstrip())
    return "\n".join(lines)


def _flat(values: dict[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{above}{name}.")
        elif not isinstance(value, list):
            found[f"{above}{name}"] = value
    return found


def _text(value: object) -> str:
    if value is None or value == "":
        return ""
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
