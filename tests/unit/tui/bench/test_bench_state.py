"""What `yak bench` tells while it runs, and the runs that are kept."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from yak.tui.bench import run as bench_run
from yak.tui.bench.history import KEPT, BenchRun, before, load, run_of, save
from yak.tui.bench.run import BenchState
from yak.tui.look import Look
from yak.tui.rows.bench import live_lines, ratio, result_text, run_rows, wrong_of

LATENCY = {"p50": 1.0, "p99": 4.0, "max": 9.0}


def progress(elapsed_s: float, records: int, p50: float = 1.0) -> dict[str, Any]:
    return {"kind": "progress", "elapsed_s": elapsed_s, "records": records, "latency_ms": {**LATENCY, "p50": p50}}


def run(time_ms: int, rate: float = 100.0, p99: float = 4.0, **values: str) -> BenchRun:
    kind = values.pop("kind", "produce")
    result = {"records_per_s": rate, "mb_per_s": rate / 1e4, "latency_ms": {**LATENCY, "p99": p99}, "errors": 0}
    return BenchRun(time_ms, kind, dict(values), f"yak bench {kind}", result, "demo")


def text_of(state: BenchState) -> str:
    return "\n".join(" ".join(cell.text for cell in line) for line in live_lines(state, "yak bench x", Look(), 80))


def test_rates_are_of_the_time_between_two_tellings_and_the_share_is_of_what_is_wanted() -> None:
    state = BenchState("produce")
    assert state.done_share is None
    state.take({"kind": "started", "messages": None, "duration_s": 10.0})
    state.take(progress(1.0, 500))
    state.take(progress(3.0, 2_500, p50=0.0))
    assert [(each.rate, each.p50_ms) for each in state.samples] == [(500.0, 1.0), (1000.0, None)]
    assert state.done_share == pytest.approx(0.3)
    assert "30 %" in text_of(state)
    counted = BenchState("consume")
    counted.take({"kind": "started", "messages": 5_000, "duration_s": None})
    counted.take(progress(1.0, 2_500))
    assert counted.done_share == 0.5


def test_an_error_is_shown_in_three_parts_and_so_is_an_end_without_one() -> None:
    state = BenchState("consume")
    state.take(
        {"error": {"code": "bench-empty", "message": "nothing to read", "why": "w", "try": ["yak bench produce"]}}
    )
    state.take_end(2, b"", "")
    assert state.phase == "failed"
    assert "nothing to read\nwhy: w\ntry: yak bench produce" in text_of(state)
    silent = BenchState("consume")
    silent.take_end(-9, b"", "a line\nthe last words\n")
    assert silent.error is not None
    assert (silent.error.code, silent.error.why) == ("bench-client", "the last words")


def test_a_result_counts_though_a_promise_did_not_hold() -> None:
    """Lost records end `yak bench failover` with code 4, after its result."""
    state = BenchState("failover")
    state.take_end(4, b'{"holds": false}', "error[records-lost]: ...")
    assert (state.phase, state.result) == ("done", {"holds": False})


def test_kills_are_told_and_at_the_end_the_count() -> None:
    state = BenchState("failover")
    state.take({"kind": "started", "kills": 2})
    kill = {"number": 1, "of": 2, "node": 3, "was_controller": True, "partitions_led": [0], "isr_whole_after_ms": 800.0}
    state.take({"kind": "kill", **kill})
    assert state.done_share == 0.5
    assert "1 of 2: broker 3, the controller, which led partition 0" in text_of(state)
    result = {"holds": True, "acknowledged": 5, "lost": 0, "duplicated": 0, "reordered": 0}
    state.take_end(0, json.dumps(result).encode(), "")
    assert "✓ acknowledged 5, lost 0" in text_of(state)


def test_a_run_is_compared_with_the_last_one_like_it_only() -> None:
    runs = [run(1, rate=50.0), run(2, rate=80.0), run(3, clients="4"), run(4, kind="consume"), run(5, rate=100.0)]
    earlier = before(runs, runs[-1])
    assert earlier is runs[1]
    assert ratio(runs[-1], earlier) == (1.25, True)
    assert before(runs, runs[0]) is None
    assert before(runs, runs[2]) is None


def test_at_a_given_rate_p99_is_compared_and_less_is_better() -> None:
    assert ratio(run(2, p99=2.0, kind="latency"), run(1, p99=4.0, kind="latency")) == (0.5, True)
    assert ratio(run(2, p99=8.0, throughput="500"), run(1, p99=4.0, throughput="500")) == (2.0, False)


def test_rows_have_the_newest_first_with_how_it_compares() -> None:
    rows = run_rows([run(1_000, rate=50.0), run(2_000, rate=100.0)], Look(), 3_000)
    assert [row.key for row in rows] == ["2000", "1000"]
    assert rows[0].cells[8].text == "✓ 2.00x"
    assert rows[1].cells[8].text == Look().sign("none")


def test_a_run_of_another_day_has_its_day() -> None:
    rows = run_rows([run(1_000), run(90_000_000)], Look(), 90_060_000)
    assert [row.cells[0].text for row in rows] == ["01:00:00Z", "1970-01-01"]


def test_whatever_is_wrong_is_counted() -> None:
    assert wrong_of({"errors": 1, "lost": 2, "duplicated": 3, "reordered": 0, "moved": None}) == 6
    assert wrong_of({}) == 0


def test_the_details_stand_beside_those_of_the_run_before() -> None:
    text = result_text(run(2_000, rate=100.0), run(1_000, rate=50.0), Look(), 3_000)
    line = next(line for line in text.splitlines() if line.startswith("records_per_s"))
    assert line.split() == ["records_per_s", "100", "50"]


def test_runs_are_kept_without_their_histograms_and_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    assert load(folder) == []
    made = run_of(
        5, "produce", {"clients": "2"}, "yak bench produce", {"records": 1, "histogram": [1], "per_client": []}, "demo"
    )
    assert made.result == {"records": 1}
    save(folder, made)
    with (folder / "bench-runs.jsonl").open("a") as file:
        file.write("half a li\n{}\n")
    save(folder, made)
    assert load(folder) == [made, made]


def test_the_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    for number in range(2 * KEPT + 5):
        save(tmp_path, run(number))
    assert len((tmp_path / "bench-runs.jsonl").read_text().splitlines()) < 2 * KEPT
    assert load(tmp_path)[-1].time_ms == 2 * KEPT + 4


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    save(tmp_path / "file", run(1))
    assert load(tmp_path / "file") == []


def child(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(bench_run, "yak_argv", lambda *_words: [sys.executable, "-c", program])


def test_the_child_is_heard_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"kind": "started", "duration_s": 2.0}, progress(1.0, 7)]
    program = (
        f"import sys; sys.stderr.write({json.dumps(lines[0])!r} + '\\n' + 'the client was the limit\\n'"
        f" + {json.dumps(lines[1])!r} + '\\n'); print('{{\"records\": 7}}')"
    )
    child(monkeypatch, program)
    state, changes = BenchState("produce"), []
    asyncio.run(bench_run.run_bench(["bench"], state, lambda: changes.append(state.phase)))
    assert (state.phase, state.result, len(state.samples)) == ("done", {"records": 7}, 1)
    assert changes[-1] == "done"


def test_a_run_that_is_stopped_ends_its_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mark = tmp_path / "ended"
    program = (
        "import signal, sys, time, pathlib\n"
        f"def end(*_): pathlib.Path({str(mark)!r}).touch(); sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        'sys.stderr.write(\'{"kind": "started", "duration_s": 60}\\n\'); sys.stderr.flush(); time.sleep(60)'
    )
    child(monkeypatch, program)
    state = BenchState("produce")

    async def scenario() -> None:
        began = asyncio.Event()
        task = asyncio.create_task(bench_run.run_bench(["bench"], state, began.set))
        await asyncio.wait_for(began.wait(), 10)
        assert state.phase == "running"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())
    assert state.phase == "stopped"
    assert mark.exists()
