"""What `yak demo` prints of a scenario, without running one."""

import io
from types import SimpleNamespace

import pytest

from yak.commands.demo import Terminal, aligned, play, plot
from yak.commands.isr import BAD
from yak.local.demo.scenario import Result, Settings


class Out:
    """Keeps the lines that are printed, and their colours."""

    def __init__(self):
        self.stderr, self.is_live = io.StringIO(), False
        self.notes = []

    def note(self, text):
        self.notes.append(text)

    def paint(self, text, colour):
        return f"{colour}:{text}"


@pytest.fixture
def terminal():
    return Terminal(SimpleNamespace(out=Out()))


def test_table_has_a_header_and_a_colour_for_each_row(terminal):
    rows = [
        {"member": "member-1", "pid": 41, "partitions": "0, 3, 4", "messages read": 371},
        {"member": "member-2", "pid": 42, "partitions": "killed", "messages read": 20},
    ]
    terminal.table(rows, [True, False])
    assert terminal._out.notes == [
        "      MEMBER    PID  PARTITIONS  MESSAGES READ",
        "      member-1   41  0, 3, 4               371",
        f"      {BAD}:member-2   42  killed                 20",
    ]


def test_table_without_rows_prints_nothing(terminal):
    terminal.table([], [])
    assert terminal._out.notes == []


def test_step_has_its_number_and_the_number_of_steps(terminal):
    terminal.step(2, 7, "Kill")
    assert terminal._out.notes == ["1;36:2/7   1:Kill"]


def test_commands_are_aligned_with_what_they_do():
    lines = aligned([("yak up -d", "start"), ("yak down", "")])
    assert lines[-2:] == [f"{'yak up -d':<37} start", "yak down"]


@pytest.mark.parametrize(("holds", "code"), [(True, None), (False, 4)])
def test_live_display_ends_before_the_report(monkeypatch, holds, code):
    happened = []

    class Display(Terminal):
        def __exit__(self, *_):
            happened.append("display ended")

    class Demo:
        SUMMARY = "What it shows."

        def __init__(self, _settings, reporter):
            assert isinstance(reporter, Display)

        def run(self):
            happened.append("ran")
            return Result(holds, "", [], [], [], {})

    monkeypatch.setattr("yak.commands.demo.show_result", lambda _g, _result: happened.append("reported"))
    assert play(SimpleNamespace(out=Out()), Demo, Settings(1.0), Display) == code
    assert happened == ["ran", "display ended", "reported"]


@pytest.mark.parametrize(
    "args",
    [
        ("--duration", "0s"),
        ("--duration", "soon"),
        ("--duration", "5s", "--fast"),
        ("groups", "--session-timeout", "1s"),
        ("groups", "--session-timeout", "3m"),
        ("groups", "--session-timeout", "soon"),
        ("groups", "--session-timeout", "6s", "--fast"),
        ("groups", "--duration", "5s", "--fast"),
        ("member", "--group", "g", "--topic", "t", "--name", "m", "--session-timeout", "1s"),
    ],
)
def test_invalid_demo_arguments_are_a_usage_error(yak, args):
    ran = yak("demo", *args)
    assert ran.code == 2
    assert ran.err.startswith("error[")


def test_plot_has_the_name_of_each_metric():
    stats = {(metric, second * 1000): {"mean": 50.0 + second} for metric in ("cpu", "disk") for second in range(3)}
    lines = plot(SimpleNamespace(stats=stats), 60).plain.splitlines()
    assert lines[0].strip() == "mean of each window, % (topic metric_stats)"
    assert all(any(metric in line for line in lines) for metric in ("cpu", "disk"))


def test_demo_in_a_data_directory_that_is_not_empty_is_refused(yak, tmp_path):
    (tmp_path / "something.txt").write_text("here")
    assert yak("demo", "--data-dir", ".").code == 2
