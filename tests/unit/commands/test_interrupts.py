"""The signals that end a client command: each lets its `finally` blocks run."""

import os
import signal
from collections.abc import Iterator

import pytest

from yak.commands import interrupts

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    interrupts._seen.clear()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_command_whose_terminal_is_closed_cleans_up_as_after_sigterm(number: int, code: int) -> None:
    interrupts.install()
    with pytest.raises(SystemExit) as stop:
        os.kill(os.getpid(), number)
    assert stop.value.code == code


def test_hang_up_that_nohup_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts.install()
    with interrupts.held() as held:
        os.kill(os.getpid(), signal.SIGHUP)
    assert held.signal is None


@pytest.mark.parametrize("number", SIGNALS)
def test_first_signal_is_deferred_while_held_and_the_second_raises(number: int) -> None:
    interrupts.install()

    def signal_twice() -> None:
        with interrupts.held() as held:
            os.kill(os.getpid(), number)
            assert held.exit_code == 128 + number
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else SystemExit):
        signal_twice()
