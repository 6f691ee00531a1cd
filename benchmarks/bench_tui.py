"""What `yak ui` costs and how quickly it answers while a cluster works: in a real terminal, on three brokers under load.

    python benchmarks/bench_tui.py [--rate 50000] [--seconds 20] [--screen dashboard] [--fps 4]

Goals: the first picture in 0.7 s; under 10 % of a core at 50,000 messages a second; a key answered within 50 ms.
"""

import argparse
import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time

from yak.client.admin import Admin
from yak.local.bench.fleet import own_fleet, process_cpu_seconds
from yak.local.cluster import UpSettings

YAK = (sys.executable, "-m", "yak.commands")
TOPIC = "load"


class Terminal:
    def __init__(self, *command: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=environment
        )
        os.close(slave)
        self.written = 0

    def wait_for(self, wanted: bytes, seconds: float) -> float | None:
        """Seconds until these bytes were drawn; None when they were not."""
        began, seen = time.perf_counter(), b""
        while time.perf_counter() - began < seconds:
            seen += self._read(0.02)
            if wanted in seen:
                return time.perf_counter() - began
        return None

    def drain(self, seconds: float) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            self._read(min(0.05, max(0.0, until - time.perf_counter())))

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def _read(self, seconds: float) -> bytes:
        if not select.select([self._master], [], [], seconds)[0]:
            return b""
        try:
            piece = os.read(self._master, 65_536)
        except OSError:
            return b""
        self.written += len(piece)
        return piece

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._master)


def first_pictures(bootstrap: str, screen: str) -> list[float]:
    """Seconds from the start of the process to its first picture, five times; the first run warms the machine."""
    found = []
    for _ in range(6):
        terminal = Terminal(*YAK, "ui", screen, "-b", bootstrap)
        seconds = terminal.wait_for(b"Brokers" if screen == "dashboard" else screen.encode(), 10)
        found.append(seconds if seconds is not None else float("nan"))
        terminal.end()
    return found[1:]


def key_times(terminal: Terminal, times: int) -> list[float]:
    """Milliseconds from `?` to the help on the screen."""
    found = []
    for _ in range(times):
        terminal.drain(0.37)
        terminal.press(b"?")
        seconds = terminal.wait_for(b"Keys of", 3)
        found.append((seconds if seconds is not None else 3.0) * 1000)
        terminal.drain(0.1)
        terminal.press(b"q")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--screen", default="dashboard")
    parser.add_argument("--what", default="")
    parser.add_argument("--fps", default="4")
    parser.add_argument("--keys", type=int, default=20)
    options = parser.parse_args()
    with own_fleet(3, UpSettings(http_port=0)) as cluster:
        bootstrap = cluster.status().bootstrap
        Admin(bootstrap).create_topic(TOPIC, partitions=3, replication_factor=3)
        pictures = first_pictures(bootstrap, options.screen)
        print(f"first picture  {statistics.median(pictures) * 1000:5.0f} ms (median of {len(pictures)})", flush=True)
        load = subprocess.Popen(
            (*YAK, "bench", "produce", "-b", bootstrap, "-t", TOPIC, "--throughput", str(options.rate), "--acks", "1",
             "--duration", f"{options.seconds + options.keys * 0.6 + 12}s", "--no-progress"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        what = (options.what,) if options.what else ()
        terminal = Terminal(*YAK, "ui", options.screen, *what, "-b", bootstrap, "--fps", options.fps)
        terminal.drain(5)
        before, drawn = process_cpu_seconds(terminal.process.pid), terminal.written
        terminal.drain(options.seconds)
        used = process_cpu_seconds(terminal.process.pid) - before
        print(
            f"CPU            {used / options.seconds * 100:5.1f} % of a core, {(terminal.written - drawn) / options.seconds / 1024:.1f} KiB/s drawn"
        )
        keys = key_times(terminal, options.keys)
        print(f"a key          p50 {statistics.median(keys):.0f} ms, max {max(keys):.0f} ms of {len(keys)}")
        terminal.end()
        load.terminate()
        load.wait()


if __name__ == "__main__":
    main()
