"""Delivery statistics in a few lines. Pure."""

from collections.abc import Sequence

from yak.tui.look import Look, short, span
from yak.tui.produce.account import Account
from yak.tui.produce.upload import FileProgress
from yak.tui.rows.cells import Cell, Tone

ROOMY, WORDS_WIDTH = 60, 46
"""The width from which counters share one line, and the width of the words beside a spark."""
_STATES: dict[str, tuple[str, Tone, str]] = {
    "connecting": ("up", "accent", "connecting"),
    "sending": ("up", "accent", "sending"),
    "waiting": ("paused", "warn", "waiting for the cluster"),
    "stopping": ("paused", "warn", "stopping"),
    "done": ("good", "good", "done"),
    "stopped": ("down", "", "stopped"),
    "failed": ("bad", "bad", "failed"),
}


def account_title(account: Account | None, look: Look) -> str:
    """The frame's title: `Sent ● sending for 3.1 s`."""
    if account is None:
        return "Sent"
    sign, _, word = _STATES[account.state]
    joint = "after" if account.state in ("stopped", "failed") else "in" if account.state == "done" else "for"
    if account.state == "done" and account.failed:
        sign, word = "warn", "done, not all written,"
    return f"Sent {look.sign(sign)} {word} {joint} {span(account.elapsed_ms)}"


def account_lines(account: Account | None, look: Look, width: int) -> list[list[Cell]]:
    """Counters, rate, latency, and the partitions, or why it failed."""
    if account is None:
        return [
            [Cell("Nothing was sent yet. S sends it once,", "dim")],
            [Cell("R many times. Counts, rate and latency", "dim")],
            [Cell("of what is sent stand here.", "dim")],
        ]
    counts = _counts(account, look)
    if width >= ROOMY:
        lines = [counts]
    else:
        lines = [counts[:2], [Cell(counts[2].text.strip(), counts[2].tone), *counts[3:]]]
    if account.sent > 1:
        lines += _rate(account, look, width)
    return [*lines, *_latency(account, look, width), *_outcome(account, look)]


def _counts(account: Account, look: Look) -> list[Cell]:
    cells = [
        Cell(f"sent {look.number(account.sent)}", "strong"),
        Cell(f" acknowledged {look.number(account.acknowledged)}", "good" if account.acknowledged else ""),
        Cell(f" waiting {look.number(account.waiting)}", "" if account.waiting else "dim"),
        Cell(f" failed {look.number(account.failed)}", "bad" if account.failed else "dim"),
    ]
    if account.unknown:
        cells.append(Cell(f"({look.number(account.unknown)} unknown)", "bad"))
    return cells


def _rate(account: Account, look: Look, width: int) -> list[list[Cell]]:
    words = f"rate {look.rate(account.rate)}  mean {look.rate(account.mean_rate)}"
    return _with_spark(words, account.rates, look, width)


def _latency(account: Account, look: Look, width: int) -> list[list[Cell]]:
    if account.p50_ms is None:
        return [[Cell("latency: nothing is acknowledged yet", "dim")]]
    if account.acknowledged == 1:
        return [[Cell(f"latency {_ms(account.max_ms)}")]]
    words = f"latency p50 {_ms(account.p50_ms)}  p99 {_ms(account.p99_ms)}  max {_ms(account.max_ms)}"
    return _with_spark(words, account.latencies_ms, look, width)


def _with_spark(words: str, values: Sequence[float], look: Look, width: int) -> list[list[Cell]]:
    """Words with a spark behind them, or below if it does not fit."""
    if width >= ROOMY:
        return [[Cell(f"{words:<{WORDS_WIDTH}}"), Cell(look.spark(values, width - WORDS_WIDTH - 3), "accent")]]
    return [[Cell(words)], *([[Cell(look.spark(values, width - 2), "accent")]] if values else [])]


def _outcome(account: Account, look: Look) -> list[list[Cell]]:
    lines = [[Cell(f"{look.sign('bad')} {look.number(times)} x {why}", "bad")] for why, times in account.reasons]
    if account.why and account.state == "failed":
        lines.insert(0, [Cell(f"{look.sign('bad')} {account.why}", "bad")])
    if account.unknown and account.is_over:
        lines.append([Cell("unknown: they may be written; sending them again may double them", "dim")])
    if not lines and account.few:
        last = account.few[-1]
        offset = look.number(last.offset) if last.offset >= 0 else "an offset that acks=0 does not tell"
        words = "at" if account.acknowledged == 1 else "among them"
        lines.append([Cell(f"{words} {last.topic}-{last.partition} offset {offset}", "accent")])
    return lines


def _ms(length_ms: float | None) -> str:
    if length_ms is None:
        return "?"
    return f"{length_ms:.1f} ms" if length_ms < 100 else span(length_ms)


def upload_lines(
    account: Account,
    progress: FileProgress,
    total_rows: int | None,
    rejected_name: str,
    look: Look,
    width: int,
    height: int = 3,
) -> list[list[Cell]]:
    """Progress with rows, rate and remaining time; counters; rejected rows; latency.

    With a `height` of 2, the first two.
    """
    done, left = progress.settled, None if total_rows is None else max(total_rows - progress.settled, 0)
    share = 0.0 if not total_rows else min(done / total_rows, 1.0)
    if account.state == "done":
        share, left = 1.0, 0
    words = f"{look.number(done)}" + ("" if total_rows is None else f"/{look.number(max(total_rows, done))}") + " rows"
    speed = f"{short(account.rate)}/s"
    eta = "" if left is None or account.is_over or account.rate < 1 else f"  ETA {_whole(left / account.rate)}"
    right = f"{words}  {share:.0%}  {speed}{eta}"
    lines = [[Cell(look.bar(share, max(8, width - len(right) - 4)), "accent"), Cell(right)]]
    counts = _counts(account, look)[:3]
    if progress.rejected:
        counts.append(Cell(f" {look.number(progress.rejected)} bad {look.sign('arrow')} {rejected_name}", "warn"))
    else:
        counts.append(Cell(" 0 bad", "dim"))
    lines.append(counts)
    if account.state in ("failed", "stopped"):
        sign, tone = ("bad", "bad") if account.state == "failed" else ("paused", "warn")
        why = account.why or "stopped"
        lines.insert(1, [Cell(f"{look.sign(sign)} {why}: S goes on after row {look.number(done)}", tone)])  # type: ignore[arg-type]
    else:
        lines += _latency(account, look, width)
    return lines[:height]


def _whole(seconds: float) -> str:
    """`3 s`, `2 min`: an estimate, without false precision."""
    return span(max(round(seconds), 1) * 1000).replace(".0 s", " s")
