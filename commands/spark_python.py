"""Finds the Python for Spark: this one if it has PySpark, otherwise another one, which then runs the whole command.

The executable contains no PySpark (PySpark is larger than the rest of it), so it always uses another Python.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from yak.errors import UsageError
from yak.local.spawn import foreign_environment, is_frozen

VARIABLE = "YAK_SPARK_PYTHON"
OWN_PLACE = "~/.yak-spark"
_HANDED_OVER = "YAK_SPARK_HANDED_OVER"
_NEEDED = ("pyspark", "pyarrow", "numpy", "pandas")
_CHECK = "import " + ", ".join((*_NEEDED, "yak.spark.driver")) + "; print('well')"
_CHECK_S = 60


def hand_over() -> None:
    """Return if this Python can run Spark. Otherwise a Python with PySpark runs the same command in this process.

    Raises UsageError (`spark-missing`) if there is none.
    """
    if os.environ.get(_HANDED_OVER) or (not is_frozen() and not os.environ.get(VARIABLE) and not missing_here()):
        return
    if not is_frozen() and _is_this_one(os.environ.get(VARIABLE)):
        return
    python = find_python(os.environ)
    arguments = [python, "-P", "-m", "yak.commands", *sys.argv[1:]]
    environment = {**foreign_environment(), _HANDED_OVER: "1"}
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(python, arguments, environment)  # noqa: S606 - so that signals and the terminal are its own
    except OSError as error:
        raise _none_found([f"{python}: {error.strerror}"]) from None


def missing_here() -> list[str]:
    """The packages for Spark that this Python lacks."""
    return [name for name in _NEEDED if find_spec(name) is None]


def find_python(environment: Mapping[str, str]) -> str:
    """A Python with PySpark and yak. Raises UsageError (`spark-missing`) with the candidates."""
    refused: list[str] = []
    for path, origin in _candidates(environment):
        why = _why_not(path)
        if not why:
            return path
        refused.append(f"{origin}: {why}")
        if origin.startswith(VARIABLE):
            break  # the user named this Python, so no other one is tried
    raise _none_found(refused)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in (VARIABLE, "PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"):
        if environment.get(name):
            yield shutil.which(environment[name]) or environment[name], f"{name}={environment[name]}"
    seen: set[str] = set()
    candidates = [environment.get("VIRTUAL_ENV", ""), ".venv", os.path.expanduser(OWN_PLACE)]
    for path in [
        *(os.path.abspath(os.path.join(place, "bin", "python")) for place in candidates if place),
        *(shutil.which(name, path=environment.get("PATH", os.defpath)) or "" for name in ("python3", "python")),
    ]:
        if path and path not in seen and os.path.exists(path):
            seen.add(path)
            yield path, path


def _why_not(python: str) -> str:
    """The reason why this Python cannot run Spark; empty if it can."""
    environment = {**foreign_environment(), "PYTHONSAFEPATH": "1"}
    try:
        checked = subprocess.run(  # noqa: S603 - a Python of the user
            [python, "-c", _CHECK], capture_output=True, text=True, timeout=_CHECK_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it did not answer in {_CHECK_S} s"
    except OSError as error:
        return (error.strerror or "it does not run").lower()
    if checked.returncode == 0:
        return ""
    return (checked.stderr.strip().splitlines() or ["it failed"])[-1].removeprefix("ModuleNotFoundError: ").lower()


def _is_this_one(named: str | None) -> bool:
    return bool(named) and os.path.abspath(shutil.which(named or "") or named or "") == os.path.abspath(sys.executable)


def _none_found(refused: list[str]) -> UsageError:
    has_own = not is_frozen() and not os.environ.get(VARIABLE)
    install = "pip install 'yak-broker[spark]'"
    if has_own:
        first: tuple[str, ...] = (install,)
    else:
        first = (f"python3 -m venv {OWN_PLACE} && {OWN_PLACE}/bin/{install}", "then the same command again")
    return UsageError(
        "spark-missing",
        "no Python with PySpark was found",
        why="; ".join(refused[:4]) or "there is no Python on PATH",
        try_=(*first, f"{VARIABLE}=/path/to/python yak spark …        a Python that has it"),
    )
