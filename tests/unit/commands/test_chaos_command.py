"""`yak chaos`: what is refused, what is listed, what a kept history comes to, and what the live screen shows."""

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live

from yak.commands.chaos import (
    LiveRun,
    counts_line,
    fault_line,
    new_watcher,
    partition_lines,
    progress_line,
    show_abuse,
    transaction_lines,
)
from yak.commands.output import Output
from yak.local.chaos.abuse import AbuseRow
from yak.local.chaos.liveness import Violation
from yak.local.chaos.nemesis import InjectedFault
from yak.local.chaos.recorder import Recorder
from yak.local.chaos.report import ChaosReport
from yak.local.chaos.run import ChaosRun, ChaosSettings
from yak.local.chaos.schedule import KINDS, PlannedFault
from yak.sim.history_checker import random_history
from yak.sim.history_checker.anomalies import Anomaly, Kind
from yak.sim.history_checker.corruptions import CORRUPTIONS, copy_of
from yak.sim.history_checker.history import History, Outcome
from yak.sim.history_checker.json_lines import to_lines
from yak.sim.history_checker.report import check_history
from yak.sim.seeded_random import SeededRandom


@pytest.mark.parametrize(
    ("args", "slug"),
    [
        (["--faults", "earthquake"], "unknown-fault"),
        (["--faults", "kill", "--bootstrap", "127.0.0.1:1"], "fault-needs-processes"),
        (["--duration", "1s"], "chaos-duration"),
        (["--timeline", "no/such/folder.svg"], "chaos-file"),
        (["--history", "no/such/folder.jsonl"], "chaos-file"),
        (["--data-dir", "."], "chaos-data-dir"),
    ],
)
def test_invalid_chaos_options_are_refused_before_the_run_starts(yak, tmp_path, monkeypatch, args, slug):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("something").touch()
    ran = yak("chaos", "run", *args)
    assert ran.code == 2
    assert f"error[{slug}]" in ran.err
    assert [each.name for each in (tmp_path / "here").iterdir()] == ["something"]


def test_chaos_report_is_printed_although_the_disk_is_full(yak, monkeypatch):
    """A history that could not be written hid what the run had found."""

    def run(self: ChaosRun) -> ChaosReport:
        return ChaosReport(1, 5.0, 3, (), check_history(self.history), violations=(Violation("L1", "no write"),))

    monkeypatch.setattr(ChaosRun, "run", run)
    ran = yak("chaos", "run", "--history", "/dev/full", "-o", "json")
    assert json.loads(ran.out)["violations"] == [{"invariant": "L1", "words": "no write"}]
    assert "/dev/full cannot be written" in ran.err


def test_chaos_run_in_a_readonly_context_writes_nothing_to_an_external_cluster(yak):
    ran = yak("chaos", "run", "--bootstrap", "127.0.0.1:1", "--readonly")
    assert ran.code == 2
    assert "readonly" in ran.err


def test_faults_are_listed(yak):
    listed = json.loads(yak("chaos", "faults", "-o", "json").out)
    assert [row["fault"] for row in listed] == [kind.name for kind in KINDS]


def test_checker_passes_its_self_test(yak):
    ran = yak("chaos", "prove", "--clean", "5", "-o", "json")
    assert ran.code == 0
    assert all(row["found"] for row in json.loads(ran.out))
    assert f"{len(CORRUPTIONS)} of {len(CORRUPTIONS)} found; 5 of 5 clean histories accepted" in ran.err


def test_checker_that_misses_an_anomaly_fails_its_self_test(yak, monkeypatch):
    from yak.sim.history_checker import groups

    monkeypatch.setattr(groups, "commits_are_found", lambda _history: iter(()))
    ran = yak("chaos", "prove", "--clean", "1", "-o", "json")
    assert ran.code == 4
    assert [row["anomaly"] for row in json.loads(ran.out) if not row["found"]] == ["lost-commit"]


def test_stored_history_is_checked_again(yak, tmp_path):
    history = random_history.make(SeededRandom(5))
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(to_lines(history)))
    clean = yak("chaos", "check", str(path))
    assert clean.code == 0
    assert "OK    the history contradicts nothing" in clean.err

    corrupted = CORRUPTIONS[0][2](copy_of(history))
    assert corrupted is not None
    path.write_text("\n".join(to_lines(corrupted)))
    ran = yak("chaos", "check", str(path))
    assert ran.code == 4
    assert "violated I1: lost-write, 1 times; the first: made-" in ran.err
    assert "Around the first one:" in ran.err
    document = json.loads(yak("chaos", "check", str(path), "-o", "json").out)
    assert document["ok"] is False
    assert document["lost"] == 1

    path.write_text('["send"]')
    assert "error[bad-history]: line 1" in yak("chaos", "check", str(path)).err
    assert "error[history-unreadable]" in yak("chaos", "check", str(tmp_path / "none")).err


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (lambda _line: False, "no record was acknowledged"),
        (lambda line: not line.startswith('["final"'), "to its end, so a lost end is not noticed"),
    ],
    ids=["empty", "without its last line"],
)
def test_history_that_proves_nothing_is_void(yak, tmp_path, kept, why):
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(filter(kept, to_lines(random_history.make(SeededRandom(5))))))
    ran = yak("chaos", "check", str(path))
    assert ran.code == 4
    assert "VOID  it proves nothing: " in ran.err
    assert why in ran.err
    assert json.loads(yak("chaos", "check", str(path), "-o", "json").out)["ok"] is False


def test_the_live_screen_shows_progress_counts_brokers_and_faults():
    recorder = Recorder()
    recorder.sending("w", "t-0", 1)
    recorder.sent(1, Outcome.OK, 0)
    recorder.last_ack_at["t-0"] = recorder.now() - 5.0
    node = SimpleNamespace(name="node-1", is_ready=False, is_running=True, starts=3)
    cluster: Any = SimpleNamespace(nodes={1: node})
    found = InjectedFault(PlannedFault(1, "kill", 1.0, 2.0, (2,)), 1.0)
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, height=30)
    with Live(console=console, auto_refresh=False) as live:
        screen = LiveRun(live, ChaosSettings(7, 60.0, KINDS))
        screen.phase("load and faults", 60.0)
        screen.fault(found)
        screen.note("a note")
        screen.tick(recorder, cluster, [found])
        screen.phase("settle")
    printed = stream.getvalue()
    for text in (
        "--seed 7", "0 of 60 s", "acknowledged 1", "t-0 5 s", "node-1", "starts", "3 times", "kill 2  began",
        "a note",
    ):  # fmt: skip
        assert text in printed, text


def test_dumb_terminal_gets_a_line_for_each_phase(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("CI", raising=False)
    stream = Terminal()
    g: Any = SimpleNamespace(out=Output(stderr=stream))
    with new_watcher(g, ChaosSettings(7, 60.0, KINDS)) as watcher:
        watcher.phase("load and faults", 60.0)
    assert "load and faults for 60 s\n" in stream.getvalue()


def test_csv_of_attacks_has_the_names_of_json(capsys):
    row = AbuseRow("none", "no attack", 0, 200, 0, 1.0, 2.0, 3.0, None, None, holds=True, reason="")
    show_abuse(SimpleNamespace(out=Output("csv")), [row])  # type: ignore[arg-type]
    header, values = capsys.readouterr().out.splitlines()
    assert header.split(",") == list(row.as_json())
    assert values.startswith("none,no attack,0,200,0,1.0,")


def test_lines_of_the_live_screen():
    assert progress_line(30.0, 60.0).startswith("█" * 20 + "░" * 20 + " 30 of 60 s")
    assert progress_line(3.0, None) == "3 s"
    assert "under way 0" in counts_line(Recorder())
    assert partition_lines(Recorder()) == []
    repaired = InjectedFault(PlannedFault(1, "cut", 1.0, 2.0, (2,), {"from": "all"}), 1.0, 4.5, "note")
    assert fault_line(repaired) == "      1.0 s  cut 2 (from=all)  ended after 3.5 s  note"


def test_transaction_guarantees_are_printed_only_when_they_held():
    history = random_history.make(SeededRandom(1))
    found = check_history(history)
    counts, cycles, whole, once = transaction_lines(found)
    assert counts == f"transactions: committed {found.committed}, aborted {found.aborted}, unknown {found.undecided}"
    assert cycles.endswith(f"G0 {found.write_cycles}, G1c {found.mixed_cycles}")
    assert whole.startswith("read_committed: each committed transaction")
    assert once == f"read-process-write: {found.processed} records were processed exactly once"
    broken = replace(found, anomalies=(Anomaly(Kind.ABORTED_READ, "t-0", "x"),))
    assert transaction_lines(broken) == [counts, cycles]
    assert transaction_lines(check_history(History())) == []
