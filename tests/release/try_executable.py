"""Try the built executables where nothing of Python is: no PATH, no variables, an empty home and working folder.

    python tests/release/try_executable.py [EXECUTABLE ...]      default: both that `make dist` builds

Each must say its version, start a cluster with its own metadata server, take a message, give it back, answer HTTP, show
it on a screen and in a browser, and stop.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXECUTABLES = (ROOT / "dist" / "yak" / "yak", ROOT / "dist" / "yak-onefile")
STEP_SECONDS = 60.0
LEFTOVERS_SECONDS = 10.0
"""What unpacked the one file deletes it after the broker in it has ended."""
MESSAGE = "hello from an empty room"


class StepFailed(Exception):
    """A command of the executable did not do what it should."""


class EmptyRoom:
    """A folder with nothing in it, in which an executable is run with nothing but HOME, TMPDIR and an empty PATH."""

    def __init__(self, executable: Path, folder: Path) -> None:
        self.executable = executable
        self.data_dir = folder / "data"
        self._home = folder / "home"
        self._temporary = folder / "tmp"
        self._path = folder / "bin"
        for made in (self._home, self._temporary, self._path):
            made.mkdir()

    def run(self, *arguments: str, expect: str = "") -> str:
        """Run one command; returns its standard output. Raises `StepFailed` if it fails or lacks `expect`."""
        started = time.monotonic()
        try:
            done = subprocess.run(
                [str(self.executable), *arguments],
                env=self._environment(),
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=STEP_SECONDS,
            )
        except subprocess.TimeoutExpired as expired:
            raise StepFailed(f"yak {' '.join(arguments)}: no end in {STEP_SECONDS:.0f} s") from expired
        if done.returncode != 0 or expect not in done.stdout:
            raise StepFailed(
                f"yak {' '.join(arguments)}: exit code {done.returncode}, expected 0 and {expect!r}\n"
                f"{done.stdout}{done.stderr}{self._logs()}"
            )
        print(f"  ok  {time.monotonic() - started:5.2f} s  yak {' '.join(arguments)}", flush=True)
        return done.stdout

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start one command that stays; its standard error is a pipe."""
        return subprocess.Popen(
            [str(self.executable), *arguments],
            env=self._environment(),
            cwd=self._home,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def leftovers(self) -> list[str]:
        """Processes that still name our data directory (where there is a /proc), and unpacked copies of the one file."""
        left = [path.name for path in self._temporary.glob("_MEI*")]
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(os.fsencode(self.data_dir) in word for word in words):
                left.append(f"process {entry.name}")
        return sorted(left)

    def _environment(self) -> dict[str, str]:
        return {"HOME": str(self._home), "TMPDIR": str(self._temporary), "PATH": str(self._path)}

    def _logs(self) -> str:
        text = ""
        for log in sorted(self.data_dir.rglob("*.log")) if self.data_dir.exists() else ():
            if not log.name[:20].isdigit():
                text += f"--- {log}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:]) + "\n"
        return text


def answer_http(address: str) -> None:
    """Each part of what speaks HTTP, all of it loaded late: routes, a body, metrics, a stream, a consumer. Raises `StepFailed`."""
    ask(f"{address}/health", expect='"status":"ok"')
    ask(f"{address}/openapi.json", expect='"openapi"')
    ask(f"{address}/docs", expect="</html>")
    ask(f"{address}/produce", {"topic": "smoke", "key": "key", "payload": MESSAGE}, expect='"offset"')
    ask(f"{address}/stream?topics=smoke&from=earliest", expect=MESSAGE)
    ask(f"{address}/metrics", expect="yak_build_info")
    ask(f"{address}/consumers/smoke", {"name": "me"}, expect='"instance_id"')


def ask(url: str, body: object = None, *, expect: str) -> None:
    """One request, read until what is expected comes. Raises `StepFailed`."""
    started = time.monotonic()
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/vnd.kafka.v2+json"} if data else {}
    request = urllib.request.Request(url, data, headers)
    found = ""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=STEP_SECONDS) as answer:
            while expect not in found and (line := answer.readline()):
                found += line.decode()
    except OSError as error:
        raise StepFailed(f"{url}: {error}") from error
    if expect not in found:
        raise StepFailed(f"{url}: {expect!r} is not in {found[:1000]}")
    print(f"  ok  {time.monotonic() - started:5.2f} s  {url}", flush=True)


def open_in_browser(room: EmptyRoom, bootstrap: str) -> None:
    """`yak ui --web` with the page, the terminal's script, and a tab in which the app draws. Raises `StepFailed`."""
    server = room.start("ui", "--web", "--port", "0", "-b", bootstrap)
    assert server.stderr is not None
    try:
        line = server.stderr.readline()
        if "http://" not in line:
            raise StepFailed(f"yak ui --web: {line}{server.stderr.read()}")
        address = line.split()[1].rstrip("/")
        ask(f"{address}/", expect='id="terminal"')
        ask(f"{address}/static/terminal/js/textual.js", expect="Terminal")
        ask(f"{address}/static/yak/page.js", expect="WebSocket")
        see_in_tab(address, "1/1 up")
    finally:
        server.send_signal(signal.SIGINT)
        code = server.wait(STEP_SECONDS)
    if code != 0:
        raise StepFailed(f"yak ui --web: exit code {code}")


def see_in_tab(address: str, words: str) -> None:
    """Open a websocket as the page does, and read what the app draws until these words come. Raises `StepFailed`."""
    started = time.monotonic()
    host, _, port = address.removeprefix("http://").partition(":")
    found = b""
    with socket.create_connection((host, int(port)), STEP_SECONDS) as tab:
        tab.settimeout(STEP_SECONDS)
        head = ("GET /ws?width=100&height=30 HTTP/1.1", f"Host: {host}:{port}", f"Origin: {address}")
        upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
        tab.sendall("\r\n".join((*head, *upgrade, "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==", "", "")).encode())
        while words.encode() not in found:
            piece = tab.recv(65536)
            if not piece:
                raise StepFailed(f"a tab of yak ui --web ended; it had drawn {found[-1000:]!r}")
            found += piece
    print(f"  ok  {time.monotonic() - started:5.2f} s  a tab shows {words!r}", flush=True)


def try_out(executable: Path) -> None:
    """The whole story with one executable. Raises `StepFailed`."""
    with tempfile.TemporaryDirectory(prefix="yak-smoke-") as folder:
        room = EmptyRoom(executable, Path(folder))
        room.run("--version", expect="yak")
        room.run("--help", expect="produce")
        data_dir = ("--data-dir", str(room.data_dir))
        try:
            room.run("up", "-d", *data_dir)
            status = json.loads(room.run("up", "--status", "-o", "json", *data_dir, expect="bootstrap"))
            where = ("-b", status["bootstrap"])
            room.run("produce", "-m", MESSAGE, *where)
            room.run("consume", "--from-beginning", "--exit", *where, expect=MESSAGE)
            room.run("topics", "create", "smoke", "-p", "2", *where)
            room.run("produce", "smoke", "-k", "key", "-m", MESSAGE, "-z", "zstd", *where)
            room.run("consume", "smoke", "--from-beginning", "--exit", "-o", "json", *where, expect=MESSAGE)
            answer_http(status["brokers"][0]["http_address"])
            room.run("ui", "--self-test", expect="dashboard ok")
            open_in_browser(room, status["bootstrap"])
        finally:
            room.run("down", *data_dir)
        deadline = time.monotonic() + LEFTOVERS_SECONDS
        while (leftovers := room.leftovers()) and time.monotonic() < deadline:
            time.sleep(0.1)
        if leftovers:
            raise StepFailed(f"`yak down` left something behind: {leftovers}")


def main(argv: list[str]) -> int:
    """Try each executable; returns 0 if all are well, else 1."""
    for executable in [Path(word).resolve() for word in argv] or EXECUTABLES:
        print(f"{executable}, alone in an empty room", flush=True)
        try:
            try_out(executable)
        except StepFailed as failed:
            print(f"  FAILED  {failed}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
