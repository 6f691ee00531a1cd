"""`yak ui` where no cluster is named and none answers."""

import os
import pty
import select
import subprocess
import sys
import time

import pytest
from support.held_port import HeldPort

from yak.tui.screens.first_run import CHOICES, FirstRunApp


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
@pytest.mark.parametrize(
    ("keys", "choice"),
    [
        *((key, choice) for choice, key, *_ in CHOICES),
        (["escape"], "quit"),
        (["enter"], "demo"),
        (["j", "j", "k", "enter"], "up"),
    ],
    ids=str,
)
async def test_first_run_screen_is_operable_by_keys_and_returns_the_choice(size, keys, choice):
    app = FirstRunApp("127.0.0.1:9092")
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
    assert app.return_value == choice


def test_choice_of_a_local_cluster_names_the_command_that_starts_as_many_brokers():
    (text,) = (text for choice, _key, _label, text in CHOICES if choice == "up")
    assert "three brokers" in text
    assert text.endswith("(yak up -d --brokers 3)")


def test_a_context_can_be_added_and_is_written(tmp_path):
    """In a real terminal: nothing answers at a port that is held and not listened to; `a`, a name, and the address."""
    port = HeldPort()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("YAK_")},
        "XDG_CONFIG_HOME": str(tmp_path), "TERM": "xterm-256color",
    }  # fmt: skip
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "yak.commands", "ui"], stdin=slave, stdout=slave, stderr=slave, cwd=tmp_path,
        env=environment, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    try:
        if "nothing answers" not in read_until(master, "nothing was changed", 60):
            pytest.skip("a broker answers at 127.0.0.1:9092 of this machine")
        os.write(master, b"a")
        read_until(master, "Name of the context", 60)
        os.write(master, b"there\n")
        read_until(master, "HOST:PORT", 60)
        os.write(master, f"127.0.0.1:{port.number}\n".encode())
        read_until(master, "dashboard", 60)
        os.write(master, b"Q")
        read_until(master, "\x00", 60)  # to its end: without a reader it waits for room in the terminal
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.wait()
        os.close(master)
    written = (tmp_path / "yak" / "config.toml").read_text()
    assert f"127.0.0.1:{port.number}" in written
    assert 'current = "there"' in written


def read_until(master, wanted, seconds):
    seen, until = "", time.monotonic() + seconds
    while wanted not in seen and time.monotonic() < until:
        if select.select([master], [], [], 0.1)[0]:
            try:
                seen += os.read(master, 65_536).decode(errors="replace")
            except OSError:
                break
    return seen
