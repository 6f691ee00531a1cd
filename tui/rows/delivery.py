"""Delivery statistics in a few lines, and the first rows of a CSV file as records. Pure."""

from collections.abc import Sequence

from yak.tui.formatter import Formatter
from yak.tui.produce.files import CsvPreview, FileProgress, PreviewRow
from yak.tui.produce.run import DeliveryStatistics
from yak.tui.rows.cells import Cell, Column, Row, Tone
from yak.view.formats import format_duration, format_rate

ROOMY, TEXT_WIDTH = 60, 46
"""The width from which counters share one line, and the width of the text beside a spark."""
_STATES: dict[str, tuple[str, Tone, str]] = {
    "connecting": ("up", "accent", "connecting"),
    "sending": ("up", "accent", "sending"),
    "waiting": ("paused", "warn", "waiting for the cluster"),
    "stopping": ("paused", "warn", "stopping"),
    "done": ("good", "good", "done"),
    "stopped": ("down", "", "stopped"),
    "failed": ("bad", "bad", "failed"),
}


def statistics_title(stats: DeliveryStatistics | None, fmt: Formatter) -> str:
    """The frame's title: `Sent ● sending for 3.1 s`."""
    if stats is None:
        return "Sent"
    sign, _, word = _STATES[stats.state]
    joint = "after" if stats.state in ("stopped", "failed") else "in" if stats.state == "done" else "for"
    if stats.state == "done" and stats.failed:
        sign, word = "warn", "done, not all written,"
    return f"Sent {fmt.sign(sign)} {word} {joint} {format_duration(stats.elapsed_ms)}"


def statistics_lines(stats: DeliveryStatistics | None, fmt: Formatter, width: int) -> list[list[Cell]]:
    """Counters, rate, latency, and the partitions, or why it failed."""
    if stats is None:
        return [
            [Cell("Nothing sent yet. S sends once, R repeatedly.", "dim")],
            [Cell("Counts, rate and latency appear here.", "dim")],
        ]
    counts = _counts(stats, fmt)
    if width >= ROOMY:
        lines = [counts]
    else:
        lines = [counts[:2], [Cell(counts[2].text.strip(), counts[2].tone), *counts[3:]]]
    if stats.sent > 1:
        lines += _rate(stats, fmt, width)
    return [*lines, *_latency(stats, fmt, width), *_outcome(stats, fmt)]


def _counts(stats: DeliveryStatistics, fmt: Formatter) -> list[Cell]:
    cells = [
        Cell(f"sent {fmt.number(stats.sent)}", "strong"),
        Cell(f" acknowledged {fmt.number(stats.acknowledged)}", "good" if stats.acknowledged else ""),
        Cell(f" waiting {fmt.number(stats.waiting)}", "" if stats.waiting else "dim"),
        Cell(f" failed {fmt.number(stats.failed)}", "bad" if stats.failed else "dim"),
    ]
    if stats.unknown:
        cells.append(Cell(f"({fmt.number(stats.unknown)} unknown)", "bad"))
    return cells


def _rate(stats: DeliveryStatistics, fmt: Formatter, width: int) -> list[list[Cell]]:
    text = f"rate {fmt.rate(stats.rate)}  mean {fmt.rate(stats.mean_rate)}"
    return _with_spark(text, stats.rates, fmt, width)


def _latency(stats: DeliveryStatistics, fmt: Formatter, width: int) -> list[list[Cell]]:
    if stats.p50_ms is None:
        return [[Cell("latency: nothing is acknowledged yet", "dim")]]
    if stats.acknowledged == 1:
        return [[Cell(f"latency {_ms(stats.max_ms)}")]]
    text = f"latency p50 {_ms(stats.p50_ms)}  p99 {_ms(stats.p99_ms)}  max {_ms(stats.max_ms)}"
    return _with_spark(text, stats.latencies_ms, fmt, width)


def _with_spark(text: str, values: Sequence[float], fmt: Formatter, width: int) -> list[list[Cell]]:
    """Words with a spark behind them, or below if it does not fit."""
    if width >= ROOMY:
        return [[Cell(f"{text:<{TEXT_WIDTH}}"), Cell(fmt.spark(values, width - TEXT_WIDTH - 3), "accent")]]
    return [[Cell(text)], *([[Cell(fmt.spark(values, width - 2), "accent")]] if values else [])]


def _outcome(stats: DeliveryStatistics, fmt: Formatter) -> list[list[Cell]]:
    lines = [[Cell(f"{fmt.sign('bad')} {fmt.number(times)} x {why}", "bad")] for why, times in stats.reasons]
    if stats.why and stats.state == "failed":
        lines.insert(0, [Cell(f"{fmt.sign('bad')} {stats.why}", "bad")])
    if stats.unknown and stats.is_over:
        lines.append([Cell("unknown: they may be written; sending them again may double them", "dim")])
    if not lines and stats.few:
        last = stats.few[-1]
        offset = fmt.number(last.offset) if last.offset >= 0 else "unknown (acks=0)"
        text = "at" if stats.acknowledged == 1 else "among them"
        lines.append([Cell(f"{text} {last.topic}-{last.partition} offset {offset}", "accent")])
    return lines


def _ms(length_ms: float | None) -> str:
    if length_ms is None:
        return "?"
    return f"{length_ms:.1f} ms" if length_ms < 100 else format_duration(length_ms)


def upload_lines(
    stats: DeliveryStatistics,
    progress: FileProgress,
    total_rows: int | None,
    rejected_name: str,
    fmt: Formatter,
    width: int,
    height: int = 3,
) -> list[list[Cell]]:
    """Progress with rows, rate and remaining time; counters; rejected rows; latency.

    With a `height` of 2, the first two.
    """
    done, left = progress.settled, None if total_rows is None else max(total_rows - progress.settled, 0)
    share = 0.0 if not total_rows else min(done / total_rows, 1.0)
    if stats.state == "done":
        share, left = 1.0, 0
    text = f"{fmt.number(done)}" + ("" if total_rows is None else f"/{fmt.number(max(total_rows, done))}") + " rows"
    speed = format_rate(stats.rate)
    eta = "" if left is None or stats.is_over or stats.rate < 1 else f"  ETA {_whole(left / stats.rate)}"
    right = f"{text}  {share:.0%}  {speed}{eta}"
    lines = [[Cell(fmt.bar(share, max(8, width - len(right) - 4)), "accent"), Cell(right)]]
    counts = _counts(stats, fmt)[:3]
    if progress.rejected:
        counts.append(Cell(f" {fmt.number(progress.rejected)} bad {fmt.sign('arrow')} {rejected_name}", "warn"))
    else:
        counts.append(Cell(" 0 bad", "dim"))
    lines.append(counts)
    if stats.state in ("failed", "stopped"):
        sign, tone = ("bad", "bad") if stats.state == "failed" else ("paused", "warn")
        why = stats.why or "stopped"
        lines.insert(1, [Cell(f"{fmt.sign(sign)} {why}: S goes on after row {fmt.number(done)}", tone)])  # type: ignore[arg-type]
    else:
        lines += _latency(stats, fmt, width)
    return lines[:height]


def _whole(seconds: float) -> str:
    """`3 s`, `2 min`: an estimate, without false precision."""
    return format_duration(max(round(seconds), 1) * 1000).replace(".0 s", " s")


PREVIEW_COLUMNS = (
    Column("LINE", 4, most=9, is_right=True),
    Column("KEY", 6, most=24),
    Column("VALUE", 16, most=400, flex=1),
    Column("HEADERS", 7, most=30, rank=2),
    Column("P", 1, most=6, is_right=True, rank=1),
    Column("SENT?", 10, most=44),
)


def preview_rows(preview: CsvPreview, fmt: Formatter) -> list[Row]:
    """One row each, with good, warn or bad, and why."""
    return [_preview_row(number, row, fmt) for number, row in enumerate(preview.rows)]


def _preview_row(number: int, row: PreviewRow, fmt: Formatter) -> Row:
    none = fmt.sign("none")
    partition = none if row.partition is None else str(row.partition)
    headers = " ".join(f"{name}={none if value is None else value}" for name, value in row.headers)
    return Row(
        str(number),
        Cell(str(row.line)),
        Cell(none if row.key is None else row.key, "dim" if row.key is None else ""),
        Cell(none if row.value is None else row.value, "dim" if row.status == "bad" else ""),
        Cell(headers or none, "" if headers else "dim"),
        Cell(partition, "dim" if row.partition is None else ""),
        Cell(f"{fmt.sign(row.status)} {row.why or 'yes'}", row.status),
    )


def csv_title(preview: CsvPreview, lines: int | None, fmt: Formatter) -> str:
    """The frame's title: `12 400 rows, 1.2 MiB, delimiter ",", utf-8`."""
    delimiter = {"\t": "tab", " ": "space"}.get(preview.delimiter, f'"{preview.delimiter}"')
    rows = "counting rows" if lines is None else f"{fmt.number(lines)} rows"
    return f"{rows}, {fmt.size(preview.size_bytes)}, delimiter {delimiter}, {preview.encoding}"


def check_line(preview: CsvPreview, fmt: Formatter) -> list[Cell]:
    """The result of checking the first rows."""
    if preview.doubled:
        return [Cell(f"{fmt.sign('warn')} two columns are called {preview.doubled[0]}: the last one is used", "warn")]
    if not preview.checked:
        return [Cell(f"{fmt.sign('warn')} there is no row behind the header", "warn")]
    if not preview.bad:
        return [Cell(f"{fmt.sign('good')} the first {fmt.number(preview.checked)} rows can be sent", "good")]
    line, why = preview.mistakes[0]
    text = f"{fmt.number(preview.bad)} of the first {fmt.number(preview.checked)} rows cannot be sent"
    return [Cell(f"{fmt.sign('warn')} {text}, line {fmt.number(line)}: {why}", "warn")]
