"""Disks that a chaos run can fill: writes fail while they are full, and go on when there is room."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from yak.local.chaos.node import Disk, LimitedDisk, OwnDisk, can_limit
from yak.local.processes import ProcessId, identify

WRITER = """
import sys
for line in sys.stdin:
    try:
        with open(sys.argv[1], "ab", buffering=0) as file:
            file.write(b"x" * 65536)
        print("written", flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""


@pytest.fixture(params=["own", "limited"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    made: Disk
    if request.param == "own":
        try:
            made = OwnDisk(tmp_path / "disk", 4 << 20)
        except OSError as error:
            pytest.skip(f"no small file system can be had: {error}")
    elif not can_limit():
        pytest.skip("only Linux can change the limits of another process")
    else:
        made = LimitedDisk(tmp_path)
    yield made
    made.close()


def test_a_write_fails_while_the_disk_is_full_and_succeeds_before_and_after(disk: Disk) -> None:
    disk.readable.mkdir(exist_ok=True)
    argv = [*disk.within, sys.executable, "-c", WRITER, str(disk.folder / "log")]
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def write() -> str:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("go\n")
        child.stdin.flush()
        return child.stdout.readline().strip()

    try:
        assert write() == "written"
        process = identify(child.pid)
        assert isinstance(process, ProcessId)
        disk.fill(process)
        assert write() in ("27", "28")  # EFBIG, ENOSPC
        disk.free(process)
        assert write() == "written"
        assert (disk.readable / "log").stat().st_size >= 2 * 65536
    finally:
        child.kill()
        child.wait()


def test_disk_that_cannot_be_mounted_reports_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match="unshare and nsenter are not installed"):
        OwnDisk(tmp_path / "disk", 1 << 20)
