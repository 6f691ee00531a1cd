"""Full disks, terminals that can do little, pipes that close, and Ctrl+C at any moment: one clean message, and no orphan."""

import os
import random
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.refusals import check_error
from support.waiting import wait_until

from yak.local.spawn import yak_argv

pytestmark = pytest.mark.exec_yak  # they are about starts, and find processes by their environment
MARK = "TEST_MARK"  # `yak up` passes no variable with YAK_ on
ASCII = {"LC_ALL": "C", "TERM": "dumb", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
SMALL_BYTES = 4 << 20
PYTHON_STARTS = "init_import_site"
"""What Python prints for a Ctrl+C before any code of YAK runs."""


class Marked:
    """Starts `yak` with a mark in its environment, which its children inherit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._value = uuid.uuid4().hex
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("YAK_", "REDIS_"))}
        self._environment = {**kept, "HOME": str(folder), "NO_COLOR": "1", MARK: self._value}

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        """A process group of its own, as a terminal starts it."""
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            yak_argv(*words), cwd=self.folder, env=self._environment, text=True, start_new_session=True, **pipes | more
        )

    def processes(self) -> dict[int, str]:
        """The processes with the mark, or, as Redis, which overwrites its environment, in the folder; with their command lines."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                has_mark = f"{MARK}={self._value}".encode() in (path / "environ").read_bytes().split(b"\0")
                if has_mark or Path(os.readlink(path / "cwd")).is_relative_to(self.folder):
                    found[int(path.name)] = (path / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
        return found

    def check_no_orphan(self, seconds: float = 15.0) -> None:
        deadline = time.monotonic() + seconds
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.processes() == {}

    def close(self) -> None:
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[Marked]:
    made = Marked(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    if os.getuid() != 0:
        pytest.skip("a small file system needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tmpfs", folder], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"mount: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path, free_bytes: int) -> None:
    """Leave so much room."""
    with (disk / "filler").open("wb") as file:
        file.write(b"x" * (SMALL_BYTES - free_bytes))


# ------------------------------------------------------------------------------------------------------------ full disks


@pytest.mark.parametrize("command", [("up", "-d"), ("serve", "--metadata", "raft")], ids=["up", "serve"])
def test_a_full_disk_ends_the_start_with_the_file_and_no_orphan(yak, marked, small_disk, command):
    fill(small_disk, 0)
    child = marked.start(*command, "--port", "0", "--no-http", "--data-dir", str(small_disk / "data"))
    out, err = child.communicate(timeout=60)
    ran = type("Ran", (), {"code": child.returncode, "out": out, "err": err})
    check_error(ran, 1, "[a-z-]+", str(small_disk), "No space left on device")
    marked.check_no_orphan()


def test_a_disk_that_fills_during_the_start_leaves_a_cluster_or_an_error(marked, small_disk):
    """Wherever the room ends: either all of the cluster runs, or none of it."""
    for free in (4096, 8192, 16384, 40960, 131072):
        fill(small_disk, free)
        where = ("--data-dir", str(small_disk / f"data-{free}"))
        child = marked.start("up", "-d", "--port", "0", "--no-http", *where)
        _, err = child.communicate(timeout=90)
        assert "Traceback" not in err, err
        if child.returncode == 0:
            down = marked.start("down", *where)
            _, err = down.communicate(timeout=90)
            assert down.returncode == 0, err
        else:
            assert child.returncode in (1, 3), err
            assert re.search(r"^error\[[a-z-]+\]: .+", err, re.MULTILINE), err
        marked.check_no_orphan()


# ------------------------------------------------------------------------------------------------- terminals and pipes


@pytest.mark.parametrize(
    ("surroundings", "folder"),
    [({"LC_ALL": "C", "TERM": "dumb"}, "d\u00e4t"), (ASCII, "dat")],
    ids=["LC_ALL=C", "ascii alone"],
)
def test_a_dumb_terminal_gets_plain_text(marked, surroundings, folder):
    marked._environment |= surroundings
    where = ("--data-dir", folder)
    texts = []
    for command in (("up", "-d", "--port", "0"), ("down",), ("up", "--status"), ("no-such-command",)):
        child = marked.start(*command, *where)
        out, err = child.communicate(timeout=60)
        assert child.returncode == (2 if command == ("no-such-command",) else 0), err
        texts += [out, err]
    marked.check_no_orphan()
    assert "stopped" in texts[4]
    for text in texts:
        assert "\x1b" not in text
        assert "Traceback" not in text
        assert text.isascii() or folder != "dat", text


@pytest.mark.parametrize(
    ("surroundings", "folder", "command"),
    [
        (ASCII, "d\u00e4t", ("up", "-d", "--port", "0")),
        (ASCII, "d\u00e4t", ("up", "--status")),
        ({}, os.fsdecode(b"d\xff"), ("down",)),
        ({}, os.fsdecode(b"d\xff"), ("node", "kill", "1")),
    ],
    ids=["up", "status", "down", "kill"],
)
def test_a_data_directory_whose_name_is_no_text_is_refused_before_anything_starts(
    marked: Marked, surroundings: dict[str, str], folder: str, command: tuple[str, ...]
) -> None:
    marked._environment |= surroundings
    child = marked.start(*command, "--data-dir", folder)
    out, err = child.communicate(timeout=60)
    ran = type("Ran", (), {"code": child.returncode, "out": out, "err": err})
    check_error(ran, 2, "data-dir-not-text", ascii(os.fsencode(folder))[2:-1])
    marked.check_no_orphan()
    assert {path.name for path in marked.folder.iterdir()} <= {".local"}  # where the last error is written


def test_a_reader_that_goes_away_does_not_stop_a_broker(marked):
    read, write = os.pipe()
    ready = marked.folder / "ready"
    words = (
        "serve", "--metadata", "raft", "--port", "0", "--no-http", "--log-level", "debug", "--ready-file", str(ready),
    )  # fmt: skip
    child = marked.start(*words, stdout=write, stderr=write)
    os.close(write)
    assert os.read(read, 1)
    os.close(read)
    wait_until(ready.exists, "the broker is ready", 60)
    time.sleep(0.5)
    assert child.poll() is None
    child.terminate()
    assert child.wait(60) == 0
    marked.check_no_orphan()


def test_commands_work_without_standard_streams(marked):
    words = " ".join(f"'{word}'" for word in yak_argv("up", "-d", "--port", "0", "--no-http"))
    child = subprocess.Popen(
        ["sh", "-c", f"exec {words} <&- >&- 2>&-"], cwd=marked.folder, env=marked._environment, start_new_session=True
    )
    assert child.wait(60) == 0
    assert marked.start("down").wait(60) == 0
    marked.check_no_orphan()


def test_a_pipe_that_closes_ends_yak_up_detached_with_its_cluster_up(marked):
    read, write = os.pipe()
    os.close(read)
    child = marked.start("up", "-d", "--port", "0", "--no-http", stdout=write)
    os.close(write)
    assert child.stderr is not None
    told = child.stderr.read()
    assert child.wait(60) == 0, told
    assert "Traceback" not in told
    assert len(marked.processes()) == 2, "Redis and the broker"
    assert marked.start("down").wait(60) == 0
    marked.check_no_orphan()


# ---------------------------------------------------------------------------------------------------- starts, and Ctrl+C


def test_two_starts_at_once_make_one_cluster(marked):
    children = [marked.start("up", "-d", "--port", "0", "--no-http") for _ in range(2)]
    told = [child.communicate(timeout=90)[1] for child in children]
    codes = sorted(child.returncode for child in children)
    assert codes in ([0, 0], [0, 1]), told
    if codes == [0, 1]:
        assert any("error[cluster-busy]" in each for each in told), told
    assert len(marked.processes()) == 2, "Redis and the broker"
    assert marked.start("down").wait(60) == 0
    marked.check_no_orphan()


def ctrl_c(marked: Marked, after_s: float, where: str) -> tuple[int, str]:
    """`yak up` in the foreground, and Ctrl+C so long after its start."""
    child = marked.start("up", "--port", "0", "--no-http", "--data-dir", where)
    time.sleep(after_s)
    os.killpg(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=60)
    return child.returncode, err


def test_ctrl_c_at_any_moment_of_yak_up_leaves_no_process(marked, pytestconfig):
    began = time.monotonic()
    child = marked.start("up", "-d", "--port", "0", "--no-http", "--data-dir", "first")
    assert child.wait(60) == 0
    takes_s = time.monotonic() - began
    assert marked.start("down", "--data-dir", "first").wait(60) == 0
    seed = random.SystemRandom().randrange(10**6)
    moments = random.Random(seed)
    for number in range(10 if pytestconfig.getoption("all_examples") else 5):
        after_s = moments.uniform(0.1, 1.3) * takes_s
        code, err = ctrl_c(marked, after_s, f"data-{number}")
        at = f"seed {seed}, {after_s:.2f} s of {takes_s:.2f} s"
        if PYTHON_STARTS not in err:
            assert code in (0, 130, -signal.SIGINT), f"{at}: {code} {err}"
            assert "Traceback" not in err, f"{at}: {err}"
        marked.check_no_orphan()
