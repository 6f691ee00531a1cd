"""Java and Kafka's jars for the programs in this folder; skipped where Java, Maven or Maven Central is missing."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "benchmarks"))

from versus.kafka_jars import KAFKA_VERSION, TOOL_JVM_FLAGS, Missing, java_version, kafka_jars  # noqa: E402


@pytest.fixture(scope="session")
def libs() -> Path:
    """The folder with Kafka's jars."""
    try:
        java_version()
        return kafka_jars(ROOT / "build/kafka", KAFKA_VERSION)
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def java(libs: Path) -> list[str]:
    """The command line up to the class."""
    return ["java", *TOOL_JVM_FLAGS, "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*"]


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., None]:
    """`wait_until(holds, seconds, said)`: fails with the text of `said` when it does not hold in time."""

    def wait(holds: Callable[[], bool], seconds: float, said: Callable[[], str]) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, said()
            time.sleep(0.2)

    return wait
