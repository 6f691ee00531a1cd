"""Try the built executables where nothing of Python is: no PATH, no variables, an empty home and working folder.

    python packaging/smoke_test.py [EXECUTABLE ...]      default: both that `make dist` builds

Each must say its version, start a cluster with its own metadata server, take a message, give it back, answer HTTP, and stop.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXECUTABLES = (ROOT / "dist" / "yak" / "yak", ROOT / "dist" / "yak-onefile")
STEP_SECONDS = 60.0
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
        environment = {"HOME": str(self._home), "TMPDIR": str(self._temporary), "PATH": str(self._path)}
        try:
            done = subprocess.run(
                [str(self.executable), *arguments],
                env=environment,
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
    request = urllib.request.Request(url, data, headers)  # noqa: S310 - it is always http
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
        finally:
            room.run("up", "--down", *data_dir)
        leftovers = room.leftovers()
        if leftovers:
            raise StepFailed(f"`yak up --down` left something behind: {leftovers}")


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
