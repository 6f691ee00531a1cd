"""How long a test waits for its cluster: runs pytest with the plugin again and again, and reads what it measured.

    python benchmarks/bench_testing.py [--rounds 10] [--brokers 1]

`first` is the setup of a run's first test that requests `yak_cluster` and `yak_topic`: guardian, Redis, brokers and topic
from nothing, with every import. `fresh` is a test later in the run that requests an unused cluster, `shared` one that takes
the cluster of the test before, with a topic of its own. `unused` is what pytest pays for the plugin at every start, from
Python's own -X importtime. Medians, and the slowest, in ms.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = """
import pytest

def test_first(yak_topic):
    pass

def test_shared(yak_topic):
    pass

@pytest.mark.yak(fresh=True)
def test_fresh(yak_topic):
    pass
"""
CONFTEST = """
import os

def pytest_runtest_logreport(report):
    if report.when == "setup":
        with open(os.environ["TIMES"], "a") as file:
            print(report.nodeid.rpartition("test_")[2], report.outcome, report.duration, file=file)
"""


def run_once(folder: Path, brokers: int) -> dict[str, float]:
    """One pytest run; the seconds of each test's setup."""
    times = folder / "times"
    times.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "yak.testing.plugin", "-p", "no:cacheprovider"]
    subprocess.run(
        [*command, "--yak-brokers", str(brokers)],
        cwd=folder,
        env={**_environment(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "TIMES": str(times)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    lines = [line.split() for line in times.read_text().splitlines()]
    assert all(outcome == "passed" for _, outcome, _ in lines), lines
    return {name: float(seconds) for name, _, seconds in lines}


def _environment() -> dict[str, str]:
    """This process's variables, but modules are compiled once, as pip compiles those that it installs."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def import_seconds() -> float:
    """How long importing the plugin takes where pytest is loaded already."""
    command = [sys.executable, "-X", "importtime", "-c", "import pytest, yak.testing.plugin"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    (line,) = (line for line in output.splitlines() if line.endswith("yak.testing.plugin"))
    return int(line.split("|")[1]) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--brokers", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_waiting.py").write_text(TESTS)
        (folder / "conftest.py").write_text(CONFTEST)
        run_once(folder, arguments.brokers)  # compiles what was not compiled yet
        rounds = [run_once(folder, arguments.brokers) | {"unused": import_seconds()} for _ in range(arguments.rounds)]
    print(f"{arguments.brokers} brokers, {arguments.rounds} rounds")
    for kind in ("first", "shared", "fresh", "unused"):
        found = sorted(each[kind] * 1000 for each in rounds)
        print(f"{kind:8} median {statistics.median(found):7.1f} ms   slowest {found[-1]:7.1f} ms")


if __name__ == "__main__":
    main()
