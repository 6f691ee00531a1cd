"""`yak ui --demo` in a real terminal: produce, see it, kill the leader, see the failover, quit, and nothing is left."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 40.0

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Terminal:
    """A tmux server of its own, with one window of 120 x 36 in which `yak ui --demo` runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._socket = str(folder / "tmux")
        self._environment = {
            # COLUMNS and LINES of whoever runs the tests would count for more than the window's own size
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("YAK_", "TMUX")) and name not in ("COLUMNS", "LINES")
            },
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
            "TMPDIR": str(folder),
            "TERM": "screen-256color",
            "PYTHONPATH": str(ROOT),
        }

    def tmux(self, *argv: str) -> str:
        run = subprocess.run(
            ["tmux", "-S", self._socket, "-f", "/dev/null", *argv],
            env=self._environment, capture_output=True, text=True, timeout=20,
        )  # fmt: skip
        return run.stdout

    def start(self) -> None:
        command = shlex.join([sys.executable, "-P", "-m", "yak.commands", "ui", "--demo", "--fps", "8"])
        end = f"echo $? >{shlex.quote(str(self.folder / 'ended'))}"
        # the shell, which a terminal that ends tells too, says how its child ended before it ends itself
        script = f"trap '{end}; exit' HUP; cd {shlex.quote(str(self.folder))}; {command}; {end}; sleep 60"
        self.tmux("new-session", "-d", "-x", "120", "-y", "36", "sh", "-c", script)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.tmux("send-keys", key)
            time.sleep(0.25)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)
        time.sleep(0.25)

    def command(self, text: str) -> None:
        """What is typed after a colon."""
        self.press(":")
        self.until("^ ?:")
        self.type(text)
        self.press("Enter")

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def until(self, pattern: str, *, also: Callable[[re.Match[str]], bool] = lambda _found: True) -> re.Match[str]:
        """Wait until the screen has it."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            text = self.screen()
            found = re.search(pattern, text, re.MULTILINE)
            if found is not None and also(found):
                return found
            assert time.monotonic() < deadline, f"not in {PATIENCE_S:.0f} s: {pattern}\n{text}"
            time.sleep(0.1)

    def exit_code(self) -> int:
        path = self.folder / "ended"
        deadline = time.monotonic() + PATIENCE_S
        while not path.exists() or not path.read_text().strip():
            assert time.monotonic() < deadline, self.screen()
            time.sleep(0.1)
        return int(path.read_text())

    def pane_pid(self) -> int:
        return int(self.tmux("list-panes", "-F", "#{pane_pid}").strip())

    def ui_pid(self) -> int:
        """The process of `yak ui`: what the window's shell runs."""
        (ui,) = psutil.Process(self.pane_pid()).children()
        return ui.pid


def processes_of(folder: Path) -> list[str]:
    """Command lines of what runs with data below a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            argv = process.cmdline()
            if any(word.startswith(f"{folder}/yak-") for word in argv) or process.cwd().startswith(f"{folder}/yak-"):
                found.append(" ".join(argv))
        except psutil.Error:
            continue
    return found


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    made.start()
    yield made
    made.tmux("kill-server")
    deadline = time.monotonic() + PATIENCE_S
    while processes_of(tmp_path):
        assert time.monotonic() < deadline, processes_of(tmp_path)
        time.sleep(0.1)


def number(text: str) -> int:
    return int(re.sub(r"\D", "", text))


@pytest.mark.timeout(300)  # thirty steps, each of which has its own time limit
def test_produce_see_it_kill_the_leader_see_the_failover_and_quit(terminal: Terminal, tmp_path: Path):
    terminal.until("starting|connecting|3/3 up")
    terminal.until("3/3 up")

    # produce, and see it
    # the filter first: of so many messages ours would soon be further back than the last hundred
    terminal.command("messages payments")
    terminal.until("last 100 of each partition")
    terminal.press("/")
    terminal.type("v:greeting")
    terminal.press("Enter")
    terminal.until("No record matches v:greeting")

    terminal.command("producer payments")
    terminal.until("One record")
    terminal.press("e")
    terminal.type('{"greeting": "from tmux"}')
    terminal.press("C-s")
    terminal.until(r"acknowledged\D+1\b|1 acknowledged")
    terminal.press("Escape", "Escape")
    terminal.until("─ Health ─")  # a key that comes right behind an escape is another key to a terminal
    terminal.command("messages")
    # other screens show the message too, and a key that comes right behind Enter goes to the closing prompt
    terminal.until(r"payments: last 100[\s\S]*from tmux")

    # kill the leader, and see the failover
    terminal.command("failover")
    leader = terminal.until(r"(\d) +leader ◆ +● ACTIVE +(\d+)", also=lambda found: int(found[2]) > 0)[1]
    terminal.until(r"acked .*\n.*all is there: +lost 0")
    terminal.press("g", "K")
    terminal.until(f"Kill broker {leader}")
    terminal.until(rf"\$ yak node kill {leader} --data-dir")
    terminal.press("y")
    terminal.until(r"✗ dead")
    terminal.until("2/3 up")
    for step in ("detected", "fenced", "elected", "first write"):
        terminal.until(rf"{step} +\d+(\.\d+)? m?s +█")
    terminal.until(rf"orders-0 +{leader} → (\d)", also=lambda found: found[1] != leader)
    terminal.until("the longest wait for an acknowledgement|writes go on")
    acked = number(terminal.until(r"acked ([\d\s]+?) +read")[1])
    terminal.until(r"acked ([\d\s]+?) +read", also=lambda found: number(found[1]) > acked + 500)
    terminal.until(r"lost 0 +duplicated 0 +reordered 0")

    # bring it back
    terminal.press("U")
    terminal.until(rf"\$ yak node restart {leader} --data-dir")
    terminal.press("y")
    terminal.until("3/3 up")
    assert len(processes_of(tmp_path)) >= 4

    # quit
    terminal.press("Q")
    assert terminal.exit_code() == 0
    terminal.until(r"^demo: acknowledged \d+, read \d+, lost 0, duplicated 0, reordered 0$")
    terminal.until("^its cluster is stopped, and its data deleted$")
    assert processes_of(tmp_path) == []
    assert not list(tmp_path.glob("yak-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ui_that_is_ended_leaves_no_processes_or_files(terminal: Terminal, tmp_path: Path, number: int):
    """By SIGTERM, or by SIGHUP from a terminal that ends; `test_demo_live.py` ends it by SIGKILL."""
    terminal.until("3/3 up")
    assert len(processes_of(tmp_path)) >= 4
    if number == signal.SIGHUP:
        terminal.tmux("kill-server")
    else:
        os.kill(terminal.ui_pid(), number)
    assert terminal.exit_code() == 128 + number
    deadline = time.monotonic() + PATIENCE_S
    while processes_of(tmp_path) or list(tmp_path.glob("yak-*")):
        assert time.monotonic() < deadline, processes_of(tmp_path)
        time.sleep(0.1)
