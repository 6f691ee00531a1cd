"""The runner of `make test`: what fails twice fails, what fails once is said to be flaky."""

import os
import subprocess
import sys
from pathlib import Path

RUNNER = Path(__file__).parents[1] / "run.py"
TESTS = """
import pathlib, pytest
@pytest.mark.parametrize("number", range({count}))
def test_it(number):
    seen = pathlib.Path(f"seen-{{number}}")
    was_seen = seen.exists()
    seen.touch()
    assert {condition}
"""


def run(folder: Path, condition: str, *, count: int = 1) -> tuple[int, str]:
    (folder / "test_it.py").write_text(TESTS.format(condition=condition, count=count))
    ran = subprocess.run(
        [sys.executable, str(RUNNER), "-q", "--rootdir", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"},  # starts faster
    )
    return ran.returncode, ran.stdout


def test_what_passes_alone_is_flaky(tmp_path):
    code, said = run(tmp_path, "was_seen")
    assert code == 0
    assert "FLAKY: 1 failed beside the others and passed alone:\n  test_it.py::test_it[0]" in said


def test_what_fails_again_fails(tmp_path):
    code, said = run(tmp_path, "False")
    assert code == 1
    assert "once more, alone" in said
    assert "FLAKY" not in said


def test_many_failures_are_no_coincidence(tmp_path):
    code, said = run(tmp_path, "was_seen", count=6)
    assert code == 1
    assert "once more" not in said


def test_what_is_well_is_run_once(tmp_path):
    code, said = run(tmp_path, "not was_seen")
    assert code == 0
    assert "once more" not in said


def test_a_run_that_does_not_end_is_begun_once_more(tmp_path, monkeypatch):
    monkeypatch.setenv("YAK_TESTS_LONGEST_S", "3")
    code, said = run(tmp_path, "was_seen or __import__('time').sleep(60)")
    assert code == 0
    assert "HUNG: the tests did not end in 3 s; once more, all of them" in said


def test_tests_write_bytecode_whatever_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert run(tmp_path, "not __import__('sys').dont_write_bytecode")[0] == 0


def run_in_workers(folder: Path) -> subprocess.CompletedProcess[str]:
    words = ["-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--rootdir", "."]
    return subprocess.run(
        [sys.executable, str(RUNNER), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ
        | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin,tests.file_scheduling"}
        | {"PYTHONPATH": str(RUNNER.parents[1])},
    )


def test_files_that_use_a_spark_session_have_one_worker(tmp_path):
    for number in range(8):
        folder = tmp_path / "tests" / "spark" / ("jobs" if number % 2 else "source")
        folder.mkdir(parents=True, exist_ok=True)
        text = "import os\ndef test_it():\n    open(os.environ['PYTEST_XDIST_WORKER'], 'a').close()\n"
        (folder / f"test_{number}.py").write_text(text)
    (tmp_path / "test_other.py").write_text(text.replace("], 'a'", "] + '-other', 'a'"))
    assert run_in_workers(tmp_path).returncode == 0
    assert len(list(tmp_path.glob("gw[0-9]"))) == 1
    assert len(list(tmp_path.glob("gw*-other"))) == 1


def test_a_run_ends_after_a_worker_crashed(tmp_path):
    """A worker that crashes had done other files, which no other worker has to do."""
    for number in range(12):
        crash = "marker.exists() or (marker.touch(), os._exit(3))" if number == 8 else "True"
        text = f"import os, pathlib\ndef test_it():\n    marker = pathlib.Path('seen')\n    assert {crash}\n"
        (tmp_path / f"test_{number:02}.py").write_text(text)
    ran = run_in_workers(tmp_path)
    assert "1 failed, 12 passed" in ran.stdout
    assert ran.returncode == 0, ran.stdout
    assert "FLAKY" in ran.stdout
