"""The scripts that Spark is given in place of a program, and what the one for Python does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from yak.spark.session.python import worker_python
from yak.spark.session.stand_ins import stand_in


def test_a_script_of_another_text_has_another_path_so_that_none_changes_while_it_is_used(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    first, other = stand_in("bin/x", "#!/bin/sh\necho 1\n", env), stand_in("bin/x", "#!/bin/sh\necho 2\n", env)
    assert first == stand_in("bin/x", "#!/bin/sh\necho 1\n", env)
    assert first is not None
    assert other is not None
    assert [subprocess.check_output([path], text=True) for path in (first, other)] == ["1\n", "2\n"]
    assert first.endswith("/bin/x")
    assert [path.name for path in Path(first).parent.iterdir()] == ["x"]


def test_where_nothing_can_be_written_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert stand_in("x", "#!/bin/sh\n", {"XDG_CACHE_HOME": str(tmp_path / "file")}) is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10-src.zip:/my code", "/spark/python/lib/py4j-0.10-src.zip:/my code"),
        ("/a:/spark/python/lib/pyspark.zip", "/a"),
        ("/a:/b*", "/a:/b*"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_workers_python_leaves_out_sparks_zip_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, kept: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = (
        "import os, sys; print(os.environ['PYTHONPATH'], sys.executable, sys.argv[1:], 'IFS' in os.environ, sep='|')"
    )
    ran = subprocess.run(
        [worker_python(), "-c", program, "a b", "", "$c"],
        env={**os.environ, "PYTHONPATH": given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"{kept}|{sys.executable}|['a b', '', '$c']|False\n"
