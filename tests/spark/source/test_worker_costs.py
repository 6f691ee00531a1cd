"""What a PySpark worker process is spared, and what it does not load."""

import gc
import importlib.util
import subprocess
import sys
import types
import zipfile
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from yak.spark.source import values

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def frozen_before() -> Iterator[int]:
    """How many objects the collector leaves alone: none, other than in other tests."""
    gc.unfreeze()
    yield gc.get_freeze_count()
    gc.freeze()


def as_worker(monkeypatch: pytest.MonkeyPatch, main: str, zip_path: Path) -> str:
    """This process as PySpark's, with py4j out of a zip; gives the zip's path as Python knows it."""
    with zipfile.ZipFile(zip_path, "w") as made:
        made.writestr("py4j/__init__.py", "")
        made.writestr("py4j/later.py", "HERE = True\n")
    monkeypatch.setattr(values, "_state", {"is_settled": False})
    running = types.ModuleType("__main__")
    running.__spec__ = ModuleSpec(main, None)
    monkeypatch.setitem(sys.modules, "__main__", running)
    monkeypatch.syspath_prepend(str(zip_path))
    found = importlib.machinery.PathFinder.find_spec("py4j", [str(zip_path)])
    assert found is not None
    monkeypatch.setitem(sys.modules, "py4j", importlib.util.module_from_spec(found))
    assert str(zip_path) in sys.path_importer_cache
    return str(zip_path)


def test_after_a_task_pysparks_zip_is_not_read_again_and_its_modules_not_searched_for_garbage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, frozen_before: int
) -> None:
    path = as_worker(monkeypatch, "pyspark.daemon", tmp_path / "py4j.zip")
    values.settle()
    assert path not in sys.path_importer_cache
    assert gc.get_freeze_count() > frozen_before + 1000
    # What is not loaded yet can be, and is then forgotten again; garbage of tasks is still found.
    later: Any = importlib.import_module("py4j.later")
    monkeypatch.delitem(sys.modules, "py4j.later")
    assert later.HERE
    frozen = gc.get_freeze_count()
    values.settle()
    assert path not in sys.path_importer_cache
    assert gc.get_freeze_count() <= frozen  # what is frozen may end, and nothing more was frozen


def test_other_processes_are_left_as_they_are(monkeypatch, tmp_path, frozen_before):
    path = as_worker(monkeypatch, "pytest", tmp_path / "py4j.zip")
    values.settle()
    assert path in sys.path_importer_cache
    assert gc.get_freeze_count() == frozen_before


def test_a_worker_that_only_makes_the_source_loads_no_arrow():
    program = "import sys; from yak.spark import YakDataSource; print(sorted({'numpy', 'pyarrow'} & set(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", program], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.strip() == "[]", ran.stderr


def test_workers_of_a_session_import_the_installed_pyspark_with_its_bytecode(spark):
    import pyspark

    found = spark.sparkContext.parallelize([1], 1).map(lambda _: sys.modules["pyspark"].__file__).collect()
    assert found == [pyspark.__file__]
