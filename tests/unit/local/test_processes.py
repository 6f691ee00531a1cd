"""Processes are told apart for good, and only the one that was checked is signalled."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from yak.local.processes import ProcessId, identify, is_running, kill, send_signal, stop, wait_gone


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield child
    child.kill()
    child.wait()


def test_a_running_process_is_identified_and_runs(sleeper):
    process = identify(sleeper.pid)
    assert process is not None
    assert process.pid == sleeper.pid
    assert is_running(process)
    assert identify(sleeper.pid) == process


def test_no_process_has_a_pid_that_is_not_there():
    assert identify(2**22 + 7) is None
    assert identify(0) is None
    assert identify(-1) is None


def test_a_pid_with_another_mark_is_another_process_and_is_never_signalled(sleeper):
    stranger = ProcessId(sleeper.pid, "another-boot:1")
    assert not is_running(stranger)
    assert not send_signal(stranger, signal.SIGKILL)
    assert not kill(stranger)
    assert stop(stranger, patience_seconds=0.1)
    assert sleeper.poll() is None


def test_stop_ends_a_process_that_heeds_sigterm(sleeper):
    process = identify(sleeper.pid)
    assert process is not None
    assert stop(process, patience_seconds=10.0)
    assert not is_running(process)


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM])
def test_stop_works_where_the_kernel_or_the_sandbox_has_no_pidfd(sleeper, monkeypatch, code):
    def refuse(_pid: int) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    process = identify(sleeper.pid)
    assert process is not None
    assert stop(process, patience_seconds=30.0)
    assert not send_signal(process, signal.SIGTERM)


def test_stop_kills_a_process_that_ignores_sigterm():
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('set', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"set\n"
        process = identify(child.pid)
        assert process is not None
        assert not stop(process, patience_seconds=0.1)
        assert not is_running(process)


def test_a_zombie_does_not_run():
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    process = ProcessId(child.pid, "irrelevant")
    assert wait_gone(process, 10.0)
    while os.path.exists(f"/proc/{child.pid}") and b"\nState:\tZ" not in Path(f"/proc/{child.pid}/status").read_bytes():
        time.sleep(0.01)
    assert identify(child.pid) is None
    child.wait()


def test_wait_for_a_process_that_continues_times_out(sleeper):
    process = identify(sleeper.pid)
    assert process is not None
    assert not wait_gone(process, 0.05)


_ENDS_ITS_MAIN_THREAD = """
import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print("ready", flush=True)
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in ("x86_64", "aarch64"), reason="Linux's exit(2)"
)
def test_waiting_for_a_process_lasts_until_its_last_thread_has_ended():
    child = subprocess.Popen([sys.executable, "-c", _ENDS_ITS_MAIN_THREAD], stdout=subprocess.PIPE)
    process = identify(child.pid)
    assert process is not None
    assert child.stdout is not None
    child.stdout.readline()
    try:
        while is_running(process):  # until its main thread has ended
            time.sleep(0.01)
        assert not wait_gone(process, 0.2), "its other thread still has its sockets"
    finally:
        child.kill()
    assert wait_gone(process, 10)
    child.stdout.close()
    child.wait()
