"""`yak demo spark`: its promise for real, that its check is a check, and what it draws."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from yak.commands.demo import panel
from yak.spark.demo.scenario import Snapshot
from yak.spark.demo.totals import WINDOW_MS, AcknowledgedValues, MetricWindow, compare, mean

ROOT = Path(__file__).resolve().parents[3]
START_MS = 1_795_000_000_000


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_spark_and_a_broker_are_killed_and_every_window_is_the_producers(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "yak.commands", "demo", "spark", "--fast", "-o", "json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=880,
    )
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert report["ok"] is True
    assert report["sent"] == report["counted"] == report["in_stats"] > 500
    assert report["differing"] == 0
    assert report["windows"] >= 2 * len(report["metrics"])
    assert report["spark_killed"]["processes"] >= 2  # Java with its Python
    assert report["broker_killed"]["node_id"] in {1, 2, 3}
    assert not psutil.pid_exists(report["broker_killed"]["pid"])
    for number in range(1, 8):
        assert f"{number}/7   " in ran.stderr
    assert [line for line in ran.stderr.splitlines() if len(line) > 100] == []


def pipeline(
    values: list[float],
) -> tuple[AcknowledgedValues, dict[MetricWindow, int], dict[MetricWindow, dict[str, object]]]:
    """What was sent in one window, and what jobs that make no mistake say of it."""
    sent = AcknowledgedValues()
    for value in values:
        sent.add("cpu-0", START_MS + 10, value)
    (window,) = sent.windows
    row = {"count": len(values), "malformed": 0, "mean": mean(values), "min": min(values), "max": max(values)}
    return sent, {window: len(values)}, {window: row}


def test_a_pipeline_without_a_mistake_holds() -> None:
    (report,) = compare(*pipeline([0.1, 0.2, 0.7]))
    assert report.holds
    assert (report.sent, report.counted, report.in_stats, report.windows) == (3, 3, 3, 1)


@pytest.mark.parametrize("wrong", [{"count": 2}, {"mean": 0.30000000000000004}, {"min": 0.2}, {"malformed": 1}])
def test_single_wrong_number_in_a_window_fails_the_comparison(wrong: dict[str, object]) -> None:
    sent, counts, stats = pipeline([0.1, 0.2, 0.6])
    (window,) = stats
    assert stats[window]["mean"] == 0.3
    stats[window] |= wrong
    assert not compare(sent, counts, stats)[0].holds


def test_a_window_that_is_lost_or_too_much_or_counted_twice_does_not_hold() -> None:
    sent, counts, stats = pipeline([1.0, 2.0])
    (window,) = counts
    later = window[0], window[1] + WINDOW_MS
    assert not compare(sent, {}, stats)[0].holds
    assert not compare(sent, counts, {})[0].holds
    assert not compare(sent, {**counts, later: 1}, stats)[0].holds
    assert not compare(sent, {window: 4}, stats)[0].holds


def test_the_sum_does_not_know_in_which_order_the_values_came() -> None:
    values = [0.1, 1e9, 0.2, 0.3, -1e9]
    assert mean(values) == mean(values[::-1]) == 0.6 / 5


def snapshot() -> Snapshot:
    windows = [(metric, START_MS + number * WINDOW_MS) for metric in ("cpu-0", "memory") for number in range(12)]
    rows: dict[MetricWindow, dict[str, object]] = {
        window: {"mean": 40.0 + index} for index, window in enumerate(windows)
    }
    brokers = ((1, True), (2, False), (3, True))
    return Snapshot(900, 800, 790, "running", 7, 75.0, brokers, dict.fromkeys(windows, 125), rows)


def drawn(of: Snapshot, width: int) -> list[str]:
    console = Console(width=width, color_system=None, force_terminal=False, file=open(os.devnull, "w"))  # noqa: SIM115
    with console.capture() as captured:
        console.print(panel(of, width))
    console.file.close()
    return captured.get().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_panel_fits_its_terminal_and_says_what_is_dead(width: int) -> None:
    lines = drawn(snapshot(), width)
    assert {len(line) for line in lines} == {width}
    text = "\n".join(lines)
    assert "cpu-0" in text
    assert "Spark batch 7" in text
    assert "○2 killed" in text
    assert "○1" not in text
    assert "sent 900" in lines[-1]
    assert "Spark killed" in drawn(replace(snapshot(), spark="killed"), width)[0]


def test_the_panel_can_be_drawn_before_there_is_anything() -> None:
    nothing = Snapshot(0, 0, 0, "", None, 0.0, (), {}, {})
    assert "Spark comes next" in drawn(nothing, 100)[0]
    assert "Spark comes next" in nothing.summary()
    assert "broker 2 is dead" in snapshot().summary()
