"""Make `.venv`, or see in a moment that it is as it should be. Run by the Makefile with any Python 3.11 or newer.

    python3 packaging/bootstrap.py demo    what `yak` and its demo need to run
    python3 packaging/bootstrap.py spark   that, with Spark
    python3 packaging/bootstrap.py dev     that, and everything to test, lint and package it

Standard library only. What was installed is remembered in `.venv/yak-<what>.stamp`, keyed by what decides it: the
project's requirements, constraints.txt, the Python, and the place. pip is called with the user's own configuration.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
EXTRAS = {"demo": "[demo,web]", "spark": "[demo,web,spark]", "dev": "[dev]"}
NEEDED_BY = {"demo": "the demo", "spark": "the demo on Spark", "dev": "development"}
SYSTEMS = ("linux", "darwin")
MACHINES = ("x86_64", "aarch64", "arm64")

# By default the Makefile runs this with .venv's own Python; a new environment is made with the one behind it.
BASE_PYTHON: str = getattr(sys, "_base_executable", "") or sys.executable


class Refused(Exception):
    """Something this machine lacks: what, why, and what to try."""

    def __init__(self, code: str, message: str, why: str, *try_: str) -> None:
        super().__init__(message)
        self.lines = [f"error[{code}]: {message}", f"  why:  {why}"]
        self.lines += [("  try:  " if number == 0 else "        ") + line for number, line in enumerate(try_)]


def check_machine(system: str, machine: str, version: tuple[int, ...]) -> None:
    """Raise `Refused` where YAK cannot run."""
    if version < (3, 11):
        raise Refused(
            "old-python",
            f"Python {version[0]}.{version[1]} is too old",
            "YAK needs Python 3.11 or newer",
            "make setup PYTHON=/path/to/python3.13",
        )
    if system not in SYSTEMS or machine not in MACHINES:
        raise Refused(
            "unsupported-machine",
            f"YAK does not run on {system} {machine}",
            "it is built for Linux (x86_64, aarch64) and macOS (x86_64, arm64), and carries native parts for these",
            "use one of them, or a virtual machine with Linux",
        )


def stamp_key(what: str) -> str:
    """A hash of everything that decides what gets installed."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    decides = {
        "build": project["build-system"],
        "project": project["project"],
        "packages": project["tool"]["setuptools"],
        "constraints": (ROOT / "constraints.txt").read_text(),
        "root": str(ROOT),
        "python": sys.version_info[:2],
        "what": what,
    }
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def is_current(what: str) -> bool:
    """Whether `.venv` holds `what` already; the development environment contains the others, Spark's the plain demo's."""
    if not VENV_PYTHON.exists() or not (VENV / "bin" / "yak").exists():
        return False
    enough = list(EXTRAS)[list(EXTRAS).index(what) :]
    return any(_read(VENV / f"yak-{name}.stamp") == stamp_key(name) for name in enough)


def make_venv() -> list[str]:
    """Create `.venv` unless a fitting one is there; returns the command that runs pip for it."""
    if not _fits():
        if VENV.exists():
            shutil.rmtree(VENV)
        _create_venv()
    own_pip = [str(VENV_PYTHON), "-m", "pip"]
    if _works([*own_pip, "--version"]):
        return own_pip
    # `pip --python` is there since pip 22.3 and installs into an environment that has no pip of its own.
    outer_pip = [BASE_PYTHON, "-m", "pip", "--python", str(VENV_PYTHON)]
    if _works([*outer_pip, "--version"]):
        return outer_pip
    raise _no_pip()


def _fits() -> bool:
    """Whether `.venv` runs, has this Python's version, and was made in this place (its scripts name their folder)."""
    version = f"sys.version_info[:2] != {tuple(sys.version_info[:2])}"
    if not _works([str(VENV_PYTHON), "-c", f"import sys; sys.exit({version})"]):
        return False
    script = _read(VENV / "bin" / "yak")
    return not script or str(VENV / "bin") in script


def _create_venv() -> None:
    print(f"making .venv with Python {platform.python_version()}", flush=True)
    if _works([BASE_PYTHON, "-c", "import venv, ensurepip"]):
        created = subprocess.run([BASE_PYTHON, "-m", "venv", str(VENV)], capture_output=True, text=True)
        if created.returncode == 0:
            return
        shutil.rmtree(VENV, ignore_errors=True)
    if _works([BASE_PYTHON, "-m", "virtualenv", "--version"]):
        subprocess.run([BASE_PYTHON, "-m", "virtualenv", "-q", str(VENV)], check=True)
        return
    if not _works([BASE_PYTHON, "-m", "pip", "--version"]):
        raise _no_pip()
    made = subprocess.run([BASE_PYTHON, "-m", "venv", "--without-pip", str(VENV)], capture_output=True, text=True)
    if made.returncode != 0:
        raise _no_pip()


def _no_pip() -> Refused:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return Refused(
        "no-venv",
        f"{BASE_PYTHON} cannot make a virtual environment",
        "its ensurepip module is missing (Debian and Ubuntu package it apart), and it has no pip or virtualenv either",
        f"apt-get install python{version}-venv       Debian, Ubuntu",
        "make setup PYTHON=/path/to/python3       another Python, 3.11 or newer",
    )


def install(pip: list[str], what: str) -> None:
    """Install the project in place, with its requirements held to constraints.txt; one line of progress."""
    # Python compiles a module when it first imports it: most modules of PySpark and others are never imported
    command = [*pip, "install", "--no-compile", "--no-input", "--disable-pip-version-check"]
    command += ["-c", str(ROOT / "constraints.txt"), "-e", f"{ROOT}{EXTRAS[what]}"]
    started = time.monotonic()
    last_lines: list[str] = []
    seen = 0
    live = sys.stderr.isatty()
    if not live:
        print(f"installing what {NEEDED_BY[what]} needs ...", flush=True)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    ) as process:
        for line in process.stdout or ():
            last_lines = [*last_lines[-39:], line.rstrip()]
            seen += line.lstrip().startswith(("Collecting ", "Requirement already satisfied"))
            if live:
                doing = "unpacking" if line.startswith("Installing collected") else "collecting"
                text = f"installing what {NEEDED_BY[what]} needs: {doing}, {seen} requirements, {time.monotonic() - started:.0f} s"
                print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    if live:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    if process.returncode != 0:
        print("\n".join(last_lines), file=sys.stderr)
        raise Refused(
            "install-failed",
            f"pip could not install what {NEEDED_BY[what]} needs",
            f"pip ended with {process.returncode}; its last lines are above",
            "check the network and `pip config list`, then run the same command again",
        )
    print(f"installed what {NEEDED_BY[what]} needs in {time.monotonic() - started:.0f} s", flush=True)


def main(argv: list[str]) -> int:
    """Bring `.venv` to what `argv[1]` names; returns the exit code."""
    what = argv[1] if len(argv) == 2 else ""
    if what not in EXTRAS:
        print("usage: bootstrap.py demo|spark|dev", file=sys.stderr)
        return 2
    try:
        check_machine(sys.platform, platform.machine(), sys.version_info[:2])
        if is_current(what):
            return 0
        install(make_venv(), what)
    except Refused as refused:
        print("\n".join(refused.lines), file=sys.stderr)
        return 2
    (VENV / f"yak-{what}.stamp").write_text(stamp_key(what))
    return 0


def _works(command: list[str]) -> bool:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
    except OSError:
        return False


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


if __name__ == "__main__":
    os.environ.pop("PYTHONHOME", None)
    sys.exit(main(sys.argv))
