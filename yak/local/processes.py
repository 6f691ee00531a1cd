"""Processes of this machine, identified so that a reused pid never passes for the old process.

The kernel reuses pids. A `ProcessId` adds a mark that is fixed when the process starts: on Linux the boot id and the
start time in clock ticks (`/proc/PID/stat`, field 22; proc(5)), elsewhere the creation time that the kernel reports.
Signals go through a pidfd where available, so that the checked process is the one that gets the signal.
"""

import contextlib
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yak.attempts import attempts

if TYPE_CHECKING:
    import psutil

_POLL_SECONDS = 0.005
_SIGNAL_SECONDS = 2.0
_LINUX = sys.platform.startswith("linux")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process, identified permanently by its pid and the mark of its start."""

    pid: int
    mark: str


def identify(pid: int) -> ProcessId | None:
    """The process that has this pid now; None if there is none, or only a zombie."""
    mark = _start_mark(pid)
    return None if mark is None else ProcessId(pid, mark)


def is_running(process: ProcessId) -> bool:
    """Whether this process still runs; False when its pid was reused."""
    return _start_mark(process.pid) == process.mark


def is_paused(process: ProcessId) -> bool:
    """Whether this process is stopped by SIGSTOP."""
    if not _LINUX:
        return _portable_is_paused(process)
    found = _linux_stat(process.pid)
    return found is not None and found == (b"T", process.mark)


@contextlib.contextmanager
def _pidfd(process: ProcessId) -> Iterator[int | None]:
    """A file descriptor of the process with this pid; None where there is no such thing. Raises ProcessLookupError.

    Linux has pidfd_open(2) since 5.3, and the sandbox of a container may refuse it.
    """
    handle = None
    if hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(process.pid)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                raise
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def send_signal(process: ProcessId, signal_number: int) -> bool:
    """Send a signal to this process; False when it is gone, or its pid was reused."""
    try:
        with _pidfd(process) as handle:
            if not is_running(process):
                return False
            if handle is None:
                os.kill(process.pid, signal_number)
            else:
                signal.pidfd_send_signal(handle, signal_number)
    except ProcessLookupError:
        return False
    return True


def wait_gone(process: ProcessId, timeout_seconds: float) -> bool:
    """Wait until this process has ended; False if it still runs after the timeout."""
    try:
        with _pidfd(process) as handle:
            if handle is None:
                has_ended = any(not is_running(process) for _ in attempts(timeout_seconds, _POLL_SECONDS))
            elif _start_mark(process.pid) not in (None, process.mark):
                return True  # the pid is another process's now
            else:
                # a process whose main thread has ended is a zombie, and has its sockets until its last thread ends
                ends = select.poll()  # select() refuses descriptors of 1,024 and more
                ends.register(handle, select.POLLIN)
                has_ended = bool(ends.poll(timeout_seconds * 1000))
    except ProcessLookupError:
        return True
    reap(process.pid)
    return has_ended


def stop(process: ProcessId, *, patience_seconds: float) -> bool:
    """SIGTERM, wait, then SIGKILL. True when it ended without SIGKILL, or was gone already."""
    return stop_all((process,), patience_seconds=patience_seconds)[0]


def stop_all(group: Sequence[ProcessId], *, patience_seconds: float) -> list[bool]:
    """`stop` for several processes in parallel; results in the given order. A paused process is resumed first, so that
    it handles SIGTERM."""
    signalled = []
    for process in group:
        if is_paused(process):
            send_signal(process, signal.SIGCONT)
        signalled.append(send_signal(process, signal.SIGTERM))
    deadline = time.monotonic() + patience_seconds
    ended = []
    for process, was_there in zip(group, signalled, strict=True):
        in_time = not was_there or wait_gone(process, max(0.0, deadline - time.monotonic()))
        if not in_time:
            kill(process)
        ended.append(in_time)
    return ended


def pause(process: ProcessId) -> bool:
    """SIGSTOP, and wait until the process is stopped; False when it is gone."""
    return _signal_until(process, signal.SIGSTOP, paused=True)


def resume(process: ProcessId) -> bool:
    """SIGCONT, and wait until the process runs; False when it is gone."""
    return _signal_until(process, signal.SIGCONT, paused=False)


def _signal_until(process: ProcessId, signal_number: int, *, paused: bool) -> bool:
    if not send_signal(process, signal_number):
        return False
    for _ in attempts(_SIGNAL_SECONDS, _POLL_SECONDS):
        if not is_running(process) or is_paused(process) is paused:
            break
    return is_running(process)


def kill(process: ProcessId) -> bool:
    """SIGKILL, as `kill -9` does, and wait for the end; False when it was gone already."""
    if not send_signal(process, signal.SIGKILL):
        return False
    wait_gone(process, 10.0)
    return True


def reap(pid: int) -> None:
    """Collect the exit status if the process was a child of ours, so that it leaves no zombie."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _start_mark(pid: int) -> str | None:
    if pid <= 0:
        return None
    return _linux_mark(pid) if _LINUX else _portable_mark(pid)


def _linux_mark(pid: int) -> str | None:
    found = _linux_stat(pid)
    return None if found is None or found[0] in {b"Z", b"X"} else found[1]


def _linux_stat(pid: int) -> tuple[bytes, str] | None:
    """State letter and start mark (proc(5)); None when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may contain spaces and parentheses: count fields from the last parenthesis.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return fields[0], f"{boot}:{int(fields[19])}"


def _portable_mark(pid: int) -> str | None:
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return f"created:{process.create_time():.6f}"
    except psutil.NoSuchProcess:
        return None


def _portable_is_paused(process: ProcessId) -> bool:
    import psutil

    if not is_running(process):
        return False
    try:
        return bool(psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


_AGAIN_AFTER_SECONDS: Final = 0.05
_ROUNDS_MAX: Final = 100


def end_processes_of(folder: str) -> None:
    """Kill every process of the folder, until two scans in a row find none."""
    quiet = 0
    for _ in range(_ROUNDS_MAX):
        found = processes_of(folder)
        for pid in found:
            process = identify(pid)
            if process is not None:
                kill(process)
        quiet = 0 if found else quiet + 1
        if quiet > 1:
            break
        time.sleep(_AGAIN_AFTER_SECONDS)


def processes_of(folder: str) -> list[int]:
    """Pids of this user's brokers with data below a folder, and of processes without a terminal that work in it.

    A user's editor or shell in the folder has a terminal, and is left out.
    """
    import psutil

    below = folder + os.sep
    found = []
    for process, arguments in _others_of_this_user():
        with contextlib.suppress(psutil.Error, OSError):
            is_broker = "serve" in arguments and any(each.startswith(below) for each in arguments)
            if is_broker or (process.terminal() is None and f"{process.cwd()}{os.sep}".startswith(below)):
                found.append(process.pid)
    return found


def brokers_on(data_dirs: Sequence[str]) -> list[ProcessId]:
    """This user's brokers with one of these data directories."""
    pids = [
        process.pid
        for process, arguments in _others_of_this_user()
        if "serve" in arguments and not set(arguments).isdisjoint(data_dirs)
    ]
    return [process for process in map(identify, pids) if process is not None]


def _others_of_this_user() -> Iterator[tuple["psutil.Process", list[str]]]:
    import psutil

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.uids().real == os.getuid():
                yield process, process.cmdline()
