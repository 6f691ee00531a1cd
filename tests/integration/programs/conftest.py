"""Java and Kafka's jars for the programs in this folder; skipped where Java, Maven or Maven Central is missing."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "tests/kafka")]

from suites import VERSION, pom  # noqa: E402
from versus.kafka_jars import (  # noqa: E402
    SHORT_JVM_FLAGS,
    Missing,
    compared_jars,
    fetched_jars,
    java_version,
)


@pytest.fixture(scope="session")
def newest_java() -> list[str]:
    """The command line up to the class, with the broker and tools of `COMPARED_VERSION`."""
    try:
        java_version()
        libs = compared_jars(ROOT / "build/kafka")
    except Missing as missing:
        pytest.skip(str(missing))
    return ["java", *SHORT_JVM_FLAGS, "-cp", f"{libs}/*"]


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., None]:
    """`wait_until(holds, seconds, said)`: fails with the text of `said` when it does not hold in time."""

    def wait(holds: Callable[[], bool], seconds: float, said: Callable[[], str]) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, said()
            time.sleep(0.2)

    return wait


@pytest.fixture(scope="session")
def streams_java(libs: Path) -> list[str]:
    """The command line up to the class, with the test classes of Kafka Streams."""
    del libs
    try:
        jars = fetched_jars(ROOT / "build/kafka-tests" / VERSION, pom(), f"the tests of Kafka {VERSION}")
    except Missing as missing:
        pytest.skip(str(missing))
    return ["java", *SHORT_JVM_FLAGS, "-cp", f"{jars}/*"]
