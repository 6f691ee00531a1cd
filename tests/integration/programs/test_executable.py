"""The executable is built from this tree: it stays small, and does its work where no Python is."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[3]
FOLDER_BYTES_MAX = 60_000_000
ONE_FILE_BYTES_MAX = 40_000_000

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(importlib.util.find_spec("PyInstaller") is None, reason="PyInstaller is not installed"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run = subprocess.run(
        [sys.executable, REPO / "packaging" / "build.py", "--out", out], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return out


@pytest.mark.skipif(shutil.which("cargo") is None, reason="the smaller cryptography is built with Cargo")
def test_the_executables_are_no_larger_than_promised(built: Path) -> None:
    in_folder = sum(path.lstat().st_size for path in (built / "yak").rglob("*") if path.is_file())
    assert in_folder < FOLDER_BYTES_MAX
    assert (built / "yak-onefile").stat().st_size < ONE_FILE_BYTES_MAX


@pytest.mark.parametrize("name", ["yak/yak", "yak-onefile"])
def test_an_executable_works_in_an_empty_room(built: Path, name: str) -> None:
    command = [sys.executable, REPO / "tests" / "release" / "try_executable.py", built / name]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
