"""`--workers N`: each test runs once, in workers forked after collection, and the run has the results of all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workers import by_file

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers are forked on Linux only")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")  # otherwise pytest takes a file of a folder above
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.workers", "--workers", "2", "--rootdir", ".", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
    )


def test_files_stay_whole_and_those_of_a_spark_session_together_at_the_end():
    ids = ["b.py::1", "b.py::2", "tests/spark/jobs/x.py::1", "a.py::1", "tests/spark/source/y.py::1", "b.py::3"]
    assert by_file(ids) == [[0, 1, 5], [3], [2, 4]]


FILE = """
import glob, os, time, warnings
import pytest

@pytest.fixture(scope="session", autouse=True)
def session():
    open("began-" + os.environ["PYTEST_XDIST_WORKER"], "w").close()
    until = time.monotonic() + 20
    while len(glob.glob("began-*")) < 2 and time.monotonic() < until:
        time.sleep(0.01)  # a quick worker would run all files
    yield
    with open("ends", "a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")

@pytest.mark.parametrize("number", range(6))
def test_example(number, tmp_path):
    with open("ran", "a") as file:
        file.write(f"{__name__} {number} {os.getpid()} {tmp_path}\\n")
    print("printed by", __name__, number)
    os.write(1, f"written by {__name__} {number}\\n".encode())
    if number == 2:
        warnings.warn(f"warned by {__name__}")
    assert number != 4
"""


def test_results_output_and_warnings_of_all_workers_are_printed_once(tmp_path):
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(FILE)
    ran = run(tmp_path, "--durations=1")
    assert ran.returncode == 1
    assert "4 failed, 20 passed, 4 warnings" in ran.stdout
    for name in "abcd":
        at_once = f"failed: test_{name}.py::test_example[4]: assert 4 != 4\n"
        for text in (at_once, f"FAILED test_{name}.py::test_example[4]", f"UserWarning: warned by test_{name}\n"):
            assert ran.stdout.count(text) == 1
        for text in (f"printed by test_{name}", f"written by test_{name}"):
            assert (ran.stdout.count(text), ran.stdout.count(f"{text} 4\n")) == (1, 1)
    lines = [line.split() for line in (tmp_path / "ran").read_text().splitlines()]
    tests = sorted((name, number) for name, number, _, _ in lines)
    assert tests == [(f"test_{name}", str(number)) for name in "abcd" for number in range(6)]
    assert len({pid for _, _, pid, _ in lines}) == 2
    assert len({(name, pid) for name, _, pid, _ in lines}) == 4, "a file stays in one worker"
    assert len({folder for _, _, _, folder in lines}) == len(lines)
    ends = (tmp_path / "ends").read_text().split()
    assert (len(ends), {*ends}) == (4, {"gw0", "gw1"}), "each file's fixture has ended once"


def test_every_second_worker_begins_at_the_end(tmp_path):
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text(
            "import glob, os, time\n"
            "def test_example():\n"
            "    with open('began-' + os.environ['PYTEST_XDIST_WORKER'], 'a') as file:\n"
            "        file.write(f'{__name__}\\n')\n"
            "    until = time.monotonic() + 20\n"
            "    while len(glob.glob('began-*')) < 2 and time.monotonic() < until:\n"
            "        time.sleep(0.01)\n"
        )
    run(tmp_path)
    firsts = {each.name: each.read_text().split()[0] for each in tmp_path.glob("began-*")}
    assert firsts == {"began-gw0": "test_0", "began-gw1": "test_3"}


def test_run_ends_at_the_first_failure_when_requested(tmp_path):
    for name in "ab":
        (tmp_path / f"test_{name}.py").write_text(FILE)
    ran = run(tmp_path, "-x")
    assert ran.returncode == 1
    assert "stopping after" in ran.stdout
    folders = [Path(line.split()[3]) for line in (tmp_path / "ran").read_text().splitlines()]
    began = {folder.parent.name for folder in folders}
    ends = (tmp_path / "ends").read_text().split()
    # the first failure may come before the other worker begins, or between its fixture and its first test
    assert began <= {*ends}, "each has ended its fixtures"
    assert len(ends) == len({*ends}), "once"


def test_worker_that_crashes_fails_its_test_alone(tmp_path):
    """Another worker runs the rest of the file, and no test twice."""
    for number in range(12):
        crash = "os._exit(3)" if number == 8 else "open('ran', 'a').write(f'{__name__}\\n')"
        text = f"import os\ndef test_before(): pass\ndef test_example(): {crash}\ndef test_after(): pass\n"
        (tmp_path / f"test_{number:02}.py").write_text(text)
    ran = run(tmp_path)
    assert ran.returncode == 1
    assert "1 failed, 35 passed" in ran.stdout
    assert "FAILED test_08.py::test_example - the worker crashed" in ran.stdout
    assert "exit code 3" in ran.stdout
    assert len((tmp_path / "ran").read_text().split()) == 11


def test_error_of_collection_is_reported_as_without_workers(tmp_path):
    (tmp_path / "test_a.py").write_text("import nonsense\n")
    ran = run(tmp_path)
    assert ran.returncode == 2
    assert "ModuleNotFoundError: No module named 'nonsense'" in ran.stdout


@pytest.mark.parametrize(("pressure_percent", "workers"), [(0.0, 4), (100.0, 2)])
def test_idle_processors_get_more_workers(tmp_path, pressure_percent, workers):
    (tmp_path / "conftest.py").write_text(
        "from tests import workers\n"
        "workers._FORK_SECONDS = workers._CHECK_SECONDS = 0.0\n"
        f"workers.cpu_pressure_percent = lambda: {pressure_percent}\n"
    )
    for number in range(12):
        (tmp_path / f"test_{number}.py").write_text(
            "import os, time\n"
            "def test_example():\n"
            "    time.sleep(0.2)\n"
            "    with open('ran', 'a') as file:\n"
            "        file.write(f'{os.getpid()}\\n')\n"
        )
    assert "12 passed" in run(tmp_path).stdout
    assert len(set((tmp_path / "ran").read_text().split())) == workers
