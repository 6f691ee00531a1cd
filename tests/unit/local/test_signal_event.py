"""`SignalEvent`: set by threads and by handlers of signals, waited for by several."""

import subprocess
import sys
import threading

from yak.local.signal_event import SignalEvent


def test_signal_event_stays_set_and_wakes_all_waiting_threads():
    event = SignalEvent()
    assert (event.wait(0.0), event.is_set()) == (False, False)
    woken: list[bool] = []
    threads = [threading.Thread(target=lambda: woken.append(event.wait())) for _ in range(3)]
    for each in threads:
        each.start()
    event.set()
    for each in threads:
        each.join()
    assert woken == [True] * 3
    assert (event.wait(), event.wait(0.0), event.is_set()) == (True, True, True)


PROGRAM = """
import signal
from yak.local.signal_event import SignalEvent
for number in range(2_000):
    event = SignalEvent()
    signal.signal(signal.SIGALRM, lambda *_: event.set())
    signal.setitimer(signal.ITIMER_REAL, 0.0002 + number % 100 * 0.000002)
    while not event.wait(0.00001):
        pass
"""


def test_a_signal_at_any_moment_of_a_wait_does_not_block_it():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
