"""Ships code to remote executors: the YAK package as one zip, and optionally its dependencies as another."""

import hashlib
import os
import time
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import yak
from yak.private_files import user_folder
from yak.spark.driver.settings import SessionSettings

ENVIRONMENT = "yakdeps"
_RETENTION_S = 30 * 24 * 3600
_NEEDED = ("numpy", "pandas", "pyarrow", "protobuf", "confluent-kafka", "crc32c", "cramjam", "python-dateutil", "six",
           "pytz", "tzdata", "typer", "annotated-doc", "shellingham")  # fmt: skip


def ship(spark: Any, settings: SessionSettings) -> None:
    """Send what `settings.ship` names to the executors of a session."""
    if settings.ship == "nothing":
        return
    package = str(package_zip())
    if settings.is_connect:
        spark.addArtifacts(package, pyfile=True)
        if settings.ship == "all":
            spark.addArtifacts(f"{environment_zip()}#{ENVIRONMENT}", archive=True)
        return
    spark.sparkContext.addPyFile(package)
    if settings.ship == "all":
        spark.sparkContext.addArchive(f"{environment_zip()}#{ENVIRONMENT}")


def executor_path(ship_what: str) -> str:
    """PYTHONPATH of the executors: shipped files are in their working directory.

    Spark adds shipped files to the path of workers for functions, but not of workers for data sources (4.3).
    """
    names = [package_zip().name] if ship_what != "nothing" else []
    return ":".join([*names, ENVIRONMENT] if ship_what == "all" else names)


def submit_arguments(ship_what: str) -> list[str]:
    """The arguments that ship the same files with spark-submit."""
    arguments = []
    if ship_what != "nothing":
        arguments += ["--py-files", str(package_zip())]
        arguments += ["--conf", f"spark.executorEnv.PYTHONPATH={executor_path(ship_what)}"]
    if ship_what == "all":
        arguments += ["--archives", f"{environment_zip()}#{ENVIRONMENT}"]
    return arguments


def package_zip(cache: Path | None = None) -> Path:
    """The YAK package as a zip, created once per state of its files."""
    root = Path(yak.__file__).parent
    files = sorted((path, f"yak/{path.relative_to(root)}") for path in _sources(root))
    return _zipped("yak", files, cache)


def environment_zip() -> Path:
    """The package's dependencies from this environment, for executors with the same Python and platform."""
    files = []
    for name in _NEEDED:
        try:
            dist = distribution(name)
        except PackageNotFoundError:
            continue
        for file in dist.files or ():
            path = Path(str(dist.locate_file(file)))
            if ".." not in file.parts and "__pycache__" not in file.parts and "tests" not in file.parts:
                files.append((path, str(file)))
    return _zipped(ENVIRONMENT, sorted((path, name) for path, name in files if path.is_file()))


def _sources(root: Path) -> Iterator[Path]:
    """The source files of the package; its subpackages may be symlinks to sibling folders."""
    for folder, folders, names in os.walk(root, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (Path(folder, name) for name in sorted(names) if not name.endswith(".pyc"))


def _zipped(name: str, files: list[tuple[Path, str]], cache: Path | None = None) -> Path:
    folder = cache or Path(user_folder("XDG_CACHE_HOME", ".cache"), "spark")
    key = hashlib.sha256()
    for path, inside in files:
        found = path.stat()
        key.update(f"{inside} {found.st_size} {found.st_mtime_ns}\n".encode())
    target = folder / f"{name}-{key.hexdigest()[:16]}.zip"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(f".{os.getpid()}")
    # some installations give every file the time 0, which a zip cannot hold
    with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False) as archive:
        for path, inside in files:
            archive.write(path, inside)
    os.replace(fresh, target)
    for old in folder.glob(f"{name}-*.zip"):
        if (
            time.time() - old.stat().st_mtime > _RETENTION_S
        ):  # a running session still serves a recent zip to new executors
            old.unlink(missing_ok=True)
    return target
