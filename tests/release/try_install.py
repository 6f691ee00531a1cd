"""Install the built wheels as their users do, each into an empty place, and use what was installed.

    python tests/release/try_install.py [WAY ...]      default: all

    pip       yak-broker with pip into an empty virtual environment
    uvx       yak-broker, without an installation
    uv-tool   yak-broker with `uv tool install`
    pipx      yak-broker with pipx
    bin       yak-broker-bin with pip, and nothing else from an index
    pytest    pytest-yak and yak-broker-bin with uv, and a test that kills a leader
    lowest    yak-broker with uv, each requirement at its lower bound; then its extras too, with tests of this repository

The requirements come from the package index that pip is configured for; uv and pipx too if they are not there. Nothing
is installed outside a temporary folder.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / "build" / "wheel"
STEP_SECONDS = 1200.0
MESSAGE = "hello from a wheel"
FAILOVER = """
import sys
import pytest

@pytest.mark.yak(brokers=3)
def test_leader_dies(yak_cluster, yak_topic):
    assert "yak" not in sys.modules
    leader = yak_cluster.leader_of(yak_topic)
    yak_cluster.kill(leader)
    assert yak_cluster.leader_of(yak_topic) != leader
    yak_cluster.restart(leader)
    yak_cluster.wait_until_healthy()
    assert yak_cluster.isr(yak_topic) == (1, 2, 3)
"""
TEST_TOOLS = ("hypothesis", "jsonschema", "pytest", "pytest-textual-snapshot", "pytest-timeout", "pytest-xdist")
LOWEST_TESTS = (
    "tests/unit/commands/test_help_golden.py",
    "tests/unit/security",
    "tests/unit/server/http/metrics",
    "tests/unit/server/http/test_rest_bodies.py",
    "tests/tui/test_snapshots.py",
    "tests/spark/jobs/test_every_job.py::test_anomaly_finds_the_value_that_is_not_like_the_others",
)
"""Tests that notice a requirement which is too old."""


class StepFailed(Exception):
    """A command did not do what it should."""


class Place:
    """An empty folder where one way of installing is tried: HOME, caches and data are in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("YAK_", "PYTEST_", "VIRTUAL_ENV"))
        }
        self.environment |= {
            "UV_TOOL_DIR": str(folder / "tools"),
            "UV_TOOL_BIN_DIR": str(folder / "bin"),
            "UV_PYTHON_DOWNLOADS": "never",
            "PIPX_HOME": str(folder / "pipx"),
            "PIPX_BIN_DIR": str(folder / "bin"),
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def run(self, *command: str, expect: str = "", folder: Path | None = None) -> str:
        """Run one command in the empty working folder, or another one. Raises `StepFailed` if it fails or lacks `expect`."""
        started = time.monotonic()
        done = subprocess.run(
            command,
            cwd=folder or self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=STEP_SECONDS,
        )
        if done.returncode != 0 or expect not in done.stdout:
            raise StepFailed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        words = [Path(command[0]).name, *(word.replace(str(WHEELS), "build/wheel") for word in command[1:])]
        print(f"  ok  {time.monotonic() - started:6.2f} s  {' '.join(words)}", flush=True)
        return done.stdout

    def venv(self, python: str = sys.executable) -> Path:
        """An empty virtual environment; returns its folder of programs."""
        self.run(python, "-m", "venv", str(self.folder / "venv"))
        return self.folder / "venv" / "bin"

    def tool(self, name: str) -> str:
        """uv or pipx: the one on PATH, else from the package index."""
        found = shutil.which(name)
        if found is not None:
            return found
        self.run(sys.executable, "-m", "venv", str(self.folder / "tool"))
        self.run(str(self.folder / "tool" / "bin" / "pip"), "install", "-q", name)
        return str(self.folder / "tool" / "bin" / name)

    def use(self, *yak: str) -> None:
        """Start a cluster, write a record, read it, and stop. Raises `StepFailed`."""
        self.run(*yak, "--version", expect="yak ")
        self.run(*yak, "up", "-d", "--port", "0", "--http-port", "0")
        try:
            self.run(*yak, "produce", "-m", MESSAGE)
            self.run(*yak, "consume", "--from-beginning", "--exit", expect=MESSAGE)
        finally:
            self.run(*yak, "down")


def wheel(name: str) -> str:
    """The built wheel of a distribution. Raises `StepFailed` if it is not there."""
    found = sorted(WHEELS.glob(f"{name}-*.whl"))
    if not found:
        raise StepFailed(f"there is no {name} in {WHEELS}: run `make wheels`")
    return str(found[-1])


def with_pip(place: Place) -> None:
    """`pip install yak-broker`."""
    programs = place.venv()
    place.run(str(programs / "pip"), "install", "-q", wheel("yak_broker"))
    place.use(str(programs / "yak"))


def with_uvx(place: Place) -> None:
    """`uvx --from yak-broker yak`."""
    place.use(place.tool("uv"), "tool", "run", "--python", sys.executable, "--from", wheel("yak_broker"), "yak")


def with_uv_tool(place: Place) -> None:
    """`uv tool install yak-broker`."""
    place.run(place.tool("uv"), "tool", "install", "-q", "--python", sys.executable, wheel("yak_broker"))
    place.use(str(place.folder / "bin" / "yak"))


def with_pipx(place: Place) -> None:
    """`pipx install yak-broker`."""
    place.run(place.tool("pipx"), "install", "--python", sys.executable, wheel("yak_broker"))
    place.use(str(place.folder / "bin" / "yak"))


def with_bin(place: Place) -> None:
    """`pip install yak-broker-bin`, which requires nothing."""
    programs = place.venv()
    place.run(str(programs / "pip"), "install", "-q", "--no-index", wheel("yak_broker_bin"))
    place.use(str(programs / "yak"))


def with_pytest(place: Place) -> None:
    """`uv pip install pytest-yak`, and a test."""
    programs = place.venv()
    uv = place.tool("uv")
    wheels = (wheel("yak_broker_bin"), wheel("pytest_yak"))
    place.run(uv, "pip", "install", "-q", "--python", str(programs / "python"), "pytest", *wheels)
    (place.work / "test_failover.py").write_text(FAILOVER)
    place.run(str(programs / "python"), "-m", "pytest", "-q", "test_failover.py", expect="1 passed")


def with_lowest(place: Place) -> None:
    """`uv pip install --resolution lowest-direct`: the oldest requirements that pyproject.toml allows."""
    oldest = sys.executable if sys.version_info[:2] == (3, 11) else shutil.which("python3.11")
    if oldest is None:
        raise StepFailed("Python 3.11 was not found: some of the oldest requirements have wheels for it only")
    python = str(place.venv(oldest) / "python")
    install = (place.tool("uv"), "pip", "install", "-q", "--python", python)
    lowest = (*install, "--resolution", "lowest-direct", "-r", str(ROOT / "pyproject.toml"))
    for extras in ((), ("--extra", "demo", "--extra", "spark", "--extra", "web")):
        place.run(*lowest, *extras)
        place.run(*install, "--no-deps", wheel("yak_broker"))
        place.use(python, "-m", "yak.commands")
    place.run(*install, *TEST_TOOLS)
    place.run(
        python, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *LOWEST_TESTS, expect=" passed", folder=ROOT
    )


WAYS: dict[str, Callable[[Place], None]] = {
    "pip": with_pip,
    "uvx": with_uvx,
    "uv-tool": with_uv_tool,
    "pipx": with_pipx,
    "bin": with_bin,
    "pytest": with_pytest,
    "lowest": with_lowest,
}


def main(argv: list[str]) -> int:
    """Try each way; returns 0 if all are well, 1 if one failed, 2 for an unknown one."""
    unknown = [name for name in argv if name not in WAYS]
    if unknown:
        print(f"error: no way is called {', '.join(unknown)}; they are {', '.join(WAYS)}", file=sys.stderr)
        return 2
    for name in argv or WAYS:
        print(name, flush=True)
        with tempfile.TemporaryDirectory(prefix="yak-install-") as folder:
            try:
                WAYS[name](Place(Path(folder)))
            except (StepFailed, subprocess.TimeoutExpired) as failed:
                print(f"  FAILED  {failed}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
