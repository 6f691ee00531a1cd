"""Which Java is taken, and what is said when none serves."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from yak.attempts import attempts
from yak.errors import UsageError
from yak.local.processes import identify, kill, wait_gone
from yak.spark.driver import java


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("said", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25-ea", 25)])
def test_the_major_version_is_read(tmp_path: Path, said: str, version: int) -> None:
    assert java.version_of(str(fake_java(tmp_path, said))) == version


def test_java_home_comes_first(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "17.0.1")
    fake_java(tmp_path / "path", "21.0.1")
    env = {"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{tmp_path}/path/bin"}
    assert java.find_java(env) == str(tmp_path / "home")


def test_an_old_java_home_is_passed_over_for_the_one_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "home", "11.0.1")
    fake_java(tmp_path / "path", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path}/path/bin")
    java.use_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path / "path")


def test_a_link_on_path_is_followed_to_its_home(tmp_path: Path) -> None:
    program = fake_java(tmp_path / "jvm", "17")
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / "java").symlink_to(program)
    assert java.find_java({"PATH": f"{tmp_path}/usr"}) == str(tmp_path / "jvm")


def test_missing_java_names_the_candidates_and_the_package(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11.0.1")
    with pytest.raises(UsageError) as refused:
        java.find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": f"{tmp_path}/old/bin"})
    error = refused.value
    assert (error.code, error.exit_code) == ("spark-missing", 2)
    assert "it does not run" in error.why
    assert "Java 11 is too old" in error.why
    assert error.try_[0] == "apt install openjdk-17-jre-headless        Debian, Ubuntu"


SLOW_JAVA = r"""#!/bin/sh
case "$*" in
  *launcher.Main*) printf '\n'; printf '%s\0' sh -c 'echo $$. > "$JAVA_HOME/pid"; exec sleep 60' ;;
  *) echo 'openjdk version "17.0.1"' >&2 ;;
esac
"""
SESSION = """
import signal
from yak.spark.driver.make import make_session
from yak.spark.driver.settings import SessionSettings
signal.signal(signal.SIGINT, signal.default_int_handler)
make_session(SessionSettings(master="local[1]"))
"""


def test_java_whose_start_is_interrupted_is_killed(tmp_path: Path) -> None:
    """Else it would run for ever: PySpark has removed the folder in which it names its port."""
    pytest.importorskip("pyspark")
    fake_java(tmp_path, "").write_text(SLOW_JAVA)
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", SESSION], env=environment, stderr=subprocess.DEVNULL) as child:
        for _ in attempts(60, 0.05):
            if (tmp_path / "pid").exists() and (said := (tmp_path / "pid").read_text()).endswith(".\n"):
                break
        started = identify(int(said[:-2]))
        assert started is not None
        try:
            child.send_signal(signal.SIGINT)
            child.wait(30)
            assert wait_gone(started, 5)
        finally:
            kill(started)
