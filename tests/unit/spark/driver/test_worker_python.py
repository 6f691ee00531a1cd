"""The Python of Spark's workers: which one it is, and what it finds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from yak.spark.driver import make

pyspark = pytest.importorskip("pyspark")
HOME = os.path.dirname(pyspark.__file__)
SPARKS = (
    f"{HOME}/python/lib/pyspark.zip",
    f"{HOME}/python/lib/py4j-0.10.9.9-src.zip",
    f"{HOME}/jars/spark-core_2.13-4.3.0.jar",
)


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java runs, and none has run."""
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", None)
    for name in ("SPARK_HOME", "PYSPARK_GATEWAY_PORT", "YAK_SPARK_WORKER_PYTHON"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("others", [(), ("/a", "/b")])
def test_worker_has_the_path_without_sparks_zips(others: tuple[str, ...]) -> None:
    program = "import json, sys, pyspark; print(json.dumps([sys.executable, sys.path, pyspark.__file__]))"
    variables = {"SPARK_HOME": HOME, "YAK_SPARK_WORKER_PYTHON": sys.executable, "PYTHONPATH": ":".join(SPARKS + others)}
    ran = subprocess.run(
        [make._WORKER_PYTHON, "-c", program], env=variables, capture_output=True, text=True, timeout=60
    )
    executable, path, file = json.loads(ran.stdout)
    assert (executable, file) == (sys.executable, pyspark.__file__)
    assert path[: 1 + len(others)] == ["", *others]
    assert not {*SPARKS} & {*path}


def test_workers_get_the_script_and_java_this_python() -> None:
    assert make.worker_python(os.environ) == str(make._WORKER_PYTHON)
    assert os.environ["YAK_SPARK_WORKER_PYTHON"] == sys.executable


@pytest.mark.parametrize("started", ["here", "elsewhere"])
def test_workers_of_a_java_that_began_before_get_this_python(monkeypatch: pytest.MonkeyPatch, started: str) -> None:
    if started == "here":
        monkeypatch.setattr(pyspark.SparkContext, "_gateway", object())
    else:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert make.worker_python(os.environ) == sys.executable
    monkeypatch.setenv("YAK_SPARK_WORKER_PYTHON", sys.executable)
    assert make.worker_python(os.environ) == str(make._WORKER_PYTHON)


def test_workers_of_another_spark_get_this_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert make.worker_python(os.environ) == sys.executable


def test_workers_get_this_python_where_the_script_cannot_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "worker_python.sh").touch(0o644)
    monkeypatch.setattr(make, "_WORKER_PYTHON", tmp_path / "worker_python.sh")
    assert make.worker_python(os.environ) == sys.executable
