"""The screen of `make bench`, and the turns and ratios below it, without a broker."""

import json
import sys
from typing import Any

import pytest

from yak.errors import UsageError


def rows(sides: tuple[str, ...] = ("yak", "kafka")) -> list[Any]:
    from versus.table import AT_LEAST_KAFKA, AT_MOST_KAFKA, Goal, Table

    made = Table(sides)
    for name, unit, goal, figures in (
        ("rate", "records/s", AT_LEAST_KAFKA, (900.0, 1000.0)),
        ("memory", "MB", AT_MOST_KAFKA, (80.0, 1270.0)),
        ("median", "ms", Goal(0.7, at_least=False), (0.9, 1.0)),
        ("CPU of the clients", "s/GB", None, (2.0, 1.0)),
    ):
        for side, value in zip(sides, figures, strict=False):
            made.add(name, unit, goal, side, value)
    return made.rows()


def test_a_row_loses_where_kafka_is_better_whatever_its_goal():
    found = {row.name: (row.loses, row.met) for row in rows()}
    assert found == {
        "rate": (True, False),
        "memory": (False, True),
        "median": (False, False),  # better than Kafka, and not by as much as the goal asks
        "CPU of the clients": (False, None),
    }


def test_losing_rows_are_marked_and_red_on_a_terminal():
    from versus.screen import screen_lines

    plain = screen_lines(rows(), "", is_coloured=False)
    assert plain[1].split() == ["!", "rate", "records/s", "900", "1", "000", "0.90"]
    assert plain[2].split() == ["memory", "MB", "80", "1", "270", "0.06"]
    assert not any("clients" in line for line in plain)
    assert plain[-1].startswith("! Kafka is better: 1 of 3 rows.")
    coloured = screen_lines(rows(), "", is_coloured=True)
    assert coloured[1] == f"\x1b[31m{plain[1]}\x1b[0m"
    assert coloured[2:] == plain[2:]


def test_without_kafka_the_screen_says_why_there_is_no_ratio():
    from versus.screen import COLUMNS, screen_lines

    lines = screen_lines(rows(("yak",)), "Java is not on PATH", is_coloured=True)
    assert lines[0].split() == ["unit", "yak", "ratio", "limit"]
    assert lines[1].split() == ["rate", "records/s", "900"]
    assert lines[-1] == "No ratio: Java is not on PATH"
    assert len(screen_lines(rows(("yak",)), "x" * 500, is_coloured=False)[-1]) == COLUMNS


def test_a_run_that_ended_before_its_first_row_says_so():
    from versus.screen import screen_lines

    assert screen_lines([], "", is_coloured=True) == ["nothing was measured"]


def test_row_of_one_side_is_not_displayed_before_the_other_side_was_measured():
    from versus.table import AT_MOST_KAFKA, Table

    made = Table()
    made.add("start", "s", AT_MOST_KAFKA, "yak", 0.3)
    assert made.rows() == []
    made.add("start", "s", AT_MOST_KAFKA, "kafka", 2.2)
    assert [row.name for row in made.rows()] == ["start"]


def test_the_side_that_goes_first_alternates():
    from versus.table import Turns

    taken: list[str] = []
    turns = Turns(("yak", "kafka"))
    for _ in range(3):
        turns.take(taken.append)
    assert taken == ["yak", "kafka", "kafka", "yak", "yak", "kafka"]


def test_an_error_says_which_side_had_it():
    from versus.table import Turns

    def fail(_side: str) -> None:
        raise UsageError("slow", "it was not created", why="30 s passed")

    with pytest.raises(UsageError) as caught:
        Turns(("yak", "kafka")).take(fail)
    assert caught.value.__notes__ == ["  why:  30 s passed", "side: yak"]


def test_processor_time_is_of_a_gigabyte_or_of_a_record():
    from versus.rounds import cpu_figure

    assert cpu_figure(2.0, 100, is_per_record=False) == ("s/GB", 2.0)
    unit, used = cpu_figure(2.0, 100, is_per_record=True)
    assert (unit, used) == ("us/record", pytest.approx(0.2))


def test_the_json_of_one_side_has_no_ratio_and_its_facts(tmp_path):
    from versus.table import write_json

    path = tmp_path / "figures.json"
    write_json(path, rows(("yak",)), kafka=None, alone="no Java")
    found = json.loads(path.read_text())
    assert (found["kafka"], found["alone"]) == (None, "no Java")
    assert found["rows"][0] == {
        "name": "rate",
        "unit": "records/s",
        "yak": 900.0,
        "ratio": None,
        "goal": ">= 1",
        "met": None,
        "yak_samples": [900.0],
        "client_limit": None,
    }


def test_an_earlier_commit_is_compared_by_the_processor_times_alone():
    from bench_self import Figures

    figures = Figures("before", "after", 0.1)
    for side, cpu, rate in (("before", 1.0, 100.0), ("after", 1.2, 50.0)):
        figures.add("produce", "records/s", None, side, rate)
        figures.add("produce: broker CPU", "us/record", figures.limit, side, cpu)
    assert [(row.name, row.met) for row in figures.rows()] == [("produce", None), ("produce: broker CPU", False)]
    assert figures.rows()[1].ratio == pytest.approx(1.2)


def test_ctrl_c_prints_what_was_measured(monkeypatch, capsys):
    import bench

    def interrupted(made: Any) -> None:
        made._parts.append(rows)
        raise KeyboardInterrupt

    monkeypatch.setattr(bench.Bench, "run", interrupted)
    monkeypatch.setattr(bench, "compared_jars", lambda cache: cache)
    monkeypatch.setattr(bench, "java_version", lambda: "Java 17")
    monkeypatch.setattr(bench.signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["bench.py"])
    assert bench.main() == 130
    printed = capsys.readouterr()
    assert "! Kafka is better: 1 of 3 rows" in printed.out
    assert "\x1b" not in printed.out
    assert "ended by Ctrl+C" in printed.err


def test_a_part_that_fails_does_not_end_the_others(monkeypatch, capsys, tmp_path):
    import bench

    def failing(_made: Any) -> None:
        raise TimeoutError("no broker")

    made = bench.Bench(None, tmp_path, is_quick=True)
    monkeypatch.setattr(bench.Bench, "_one_broker", lambda self: self._parts.append(rows))
    monkeypatch.setattr(bench.Bench, "_standing", failing)
    monkeypatch.setattr(bench.Bench, "_three_brokers", lambda self: self._parts.append(rows))
    made.run()
    assert not made.is_whole
    assert len(made.rows()) == 8
    assert "a part ended with an error: no broker" in capsys.readouterr().err


def test_the_end_of_the_time_prints_what_was_measured(monkeypatch, capsys):
    import bench

    def endless(made: Any) -> None:
        made._parts.append(rows)
        bench.signal.raise_signal(bench.signal.SIGALRM)

    before = {number: bench.signal.getsignal(number) for number in (bench.signal.SIGALRM, bench.signal.SIGTERM)}
    monkeypatch.setattr(bench.Bench, "run", endless)
    monkeypatch.setattr(bench, "compared_jars", lambda cache: cache)
    monkeypatch.setattr(bench, "java_version", lambda: "Java 17")
    monkeypatch.setattr(sys, "argv", ["bench.py"])
    try:
        assert bench.main() == 1
    finally:
        for number, handler in before.items():
            bench.signal.signal(number, handler)
    printed = capsys.readouterr()
    assert "! Kafka is better: 1 of 3 rows" in printed.out
    assert "870 s are over" in printed.err


def test_a_machine_without_java_measures_yak_alone(monkeypatch, capsys, tmp_path):
    import bench

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(bench.Bench, "run", lambda made: made._parts.append(lambda: rows(tuple(made._fresh()))))
    monkeypatch.setattr(bench.signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["bench.py", "--json", str(tmp_path / "found.json")])
    assert bench.main() == 0
    out = capsys.readouterr().out
    assert "YAK alone" in out
    assert "No ratio: Java is not on PATH" in out
    assert json.loads((tmp_path / "found.json").read_text())["kafka"] is None
