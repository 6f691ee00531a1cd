"""The end of a terminal is noticed."""

import os
import pty
import subprocess
import sys
import time

import psutil

from yak.tui.launch import EXIT_CODE, is_there


def test_a_terminal_is_there_until_its_other_end_is_closed():
    ours, theirs = pty.openpty()
    try:
        assert is_there(theirs)
        os.close(ours)
        assert not is_there(theirs)
    finally:
        os.close(theirs)


def test_process_that_does_not_respond_to_terminal_loss_is_ended_with_its_children():
    program = (
        "import subprocess, sys, threading; from yak.tui import launch as watch\n"
        "watch.POLL_SECONDS = watch.PATIENCE_SECONDS = 0.1\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], stdout=subprocess.DEVNULL)\n"
        "watch.watch_terminal(lambda: print('asked', flush=True)); print(child.pid, flush=True)\n"
        "lock = threading.Lock(); lock.acquire(); lock.acquire()"
    )
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", program], stdin=theirs, stdout=subprocess.PIPE)
    os.close(theirs)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    os.close(ours)
    assert process.stdout.readline() == b"asked\n"
    assert process.wait(20) == EXIT_CODE
    process.stdout.close()
    deadline = time.monotonic() + 20
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "its child goes on"
        time.sleep(0.05)
