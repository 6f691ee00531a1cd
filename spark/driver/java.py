"""Finds a Java that Spark can run on: `JAVA_HOME`, or the `java` on `PATH`."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from yak.errors import UsageError

LEAST = 17
"""Spark 4 requires this version."""


def find_java(env: Mapping[str, str]) -> str:
    """The home of the first suitable Java. Raises UsageError (`spark-missing`) with the candidates."""
    refused: list[str] = []
    for program, origin in _candidates(env):
        version = version_of(program)
        if version is not None and version >= LEAST:
            return str(Path(program).parent.parent)
        refused.append(f"{origin}: {'it does not run' if version is None else f'Java {version} is too old'}")
    raise UsageError(
        "spark-missing",
        f"Spark needs Java {LEAST} or newer, and none was found",
        why="; ".join(refused) or "JAVA_HOME is not set, and there is no java on PATH",
        try_=(
            "apt install openjdk-17-jre-headless        Debian, Ubuntu",
            "brew install openjdk@17                    macOS",
            "yak spark … --master sc://HOST:15002       a Spark Connect server has its own",
        ),
    )


def use_java() -> None:
    """Find Java and set JAVA_HOME to it. Raises UsageError (`spark-missing`)."""
    os.environ["JAVA_HOME"] = find_java(os.environ)


def version_of(program: str) -> int | None:
    """A Java's major version; None if the program does not run or does not print it."""
    try:
        said = subprocess.run(  # noqa: S603 - a java that the user named or that is on PATH
            [program, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(found[1]) if found and said.returncode == 0 else None


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Candidate programs, each with a description of its origin."""
    home = env.get("JAVA_HOME")
    if home:
        yield os.path.join(home, "bin", "java"), f"JAVA_HOME={home}"
    on_path = shutil.which("java", path=env.get("PATH", os.defpath))
    if on_path:
        # Spark needs JAVA_HOME; the `java` on PATH is usually a link into it.
        yield os.path.realpath(on_path), f"{on_path} on PATH"
