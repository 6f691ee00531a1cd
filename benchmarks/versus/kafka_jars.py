"""Apache Kafka's jars from Maven Central, copied once into a cache folder."""

import os
import re
import shutil
import subprocess
from pathlib import Path

KAFKA_VERSION = "4.3.1"
"""What tests run: Kafka 4.4.0 publishes neither connect-file nor connect-mirror."""

COMPARED_VERSION = "4.4.0"
"""What benchmarks compare with: the newest Kafka whose broker and tools are on Maven Central."""

JVM_FLAGS = [
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
]
"""The broker's, as Kafka's own kafka-server-start.sh and kafka-run-class.sh set them."""

TOOL_JVM_FLAGS = ["-Xmx512M", *JVM_FLAGS[2:]]
"""A tool's: kafka-producer-perf-test.sh and kafka-consumer-perf-test.sh."""

SHORT_JVM_FLAGS = ["-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]
"""A test's, whose JVM runs for seconds: the second compiler and threads that collect garbage take more than they give."""

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>yak</groupId><artifactId>bench-kafka</artifactId><version>1</version>
  <dependencies>
{dependencies}
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.4</version></dependency>
  </dependencies>
</project>
"""
DEPENDENCY = (
    "    <dependency><groupId>org.apache.kafka</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)
BROKER_AND_TOOLS = ("kafka_2.13", "kafka-tools")
CONNECT = ("connect-runtime", "connect-file", "connect-mirror")


class Missing(Exception):
    """Something this machine lacks; the benchmark is skipped with this message."""


class Refused(Exception):
    """Maven Central does not have the requested artifact: a test that needs it fails, because the request is wrong."""


_UNREACHED = re.compile(
    r"(?i)unknown ?host|name or service not known|name resolution|connection (refused|reset|timed out)|connect timed out"
    r"|network is unreachable|no route to host|could not transfer|offline mode"
)


def not_fetched(what: str, said: str) -> Missing | Refused:
    """The error for a failed download, by Maven's output."""
    message = f"Maven could not fetch {what}: {said.strip()[-500:]}"
    return Missing(message) if _UNREACHED.search(said) else Refused(message)


def java_version() -> str:
    """First line of `java -version`. Raises Missing where there is no Java."""
    if shutil.which("java") is None:
        raise Missing("Java is not on PATH (Kafka 4 needs Java 17 or newer)")
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing("`java -version` fails: " + done.stderr.strip())
    return done.stderr.splitlines()[0].strip()


def kafka_jars(cache: Path, version: str) -> Path:
    """The folder with the jars of Kafka's broker, tools and Connect, as `fetched_jars`."""
    return _jars(cache, version, (*BROKER_AND_TOOLS, *CONNECT))


def compared_jars(cache: Path) -> Path:
    """The folder with the jars of the broker and tools of `COMPARED_VERSION`, as `fetched_jars`."""
    return _jars(cache, COMPARED_VERSION, BROKER_AND_TOOLS)


def _jars(cache: Path, version: str, artifacts: tuple[str, ...]) -> Path:
    dependencies = "\n".join(DEPENDENCY.format(artifact, version) for artifact in artifacts)
    return fetched_jars(cache / version, POM.format(dependencies=dependencies), f"Kafka {version}")


def run_maven(*words: str) -> subprocess.CompletedProcess[str]:
    """Maven's exit code and output. Its JVM ends before a compiler that optimizes pays."""
    options = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {os.environ.get('MAVEN_OPTS', '')}"
    environment = {**os.environ, "MAVEN_OPTS": options.strip()}
    return subprocess.run(["mvn", "-q", "-B", *words], env=environment, capture_output=True, text=True, check=False)


def fetched_jars(folder: Path, pom: str, what: str) -> Path:
    """The folder with the jars that a POM depends on, fetched with Maven unless it is already complete.

    Raises Missing where there is no Maven or Maven Central cannot be reached, Refused where that does not have it.
    """
    libs, complete = folder / "libs", folder / "complete.xml"
    if complete.exists() and complete.read_text() == pom:
        return libs
    if shutil.which("mvn") is None:
        raise Missing(f"Maven (mvn) is not on PATH: it fetches {what} from Maven Central")
    shutil.rmtree(libs, ignore_errors=True)
    libs.mkdir(parents=True)
    begun = folder / "pom.xml"
    begun.write_text(pom)
    copy = ["dependency:copy-dependencies", f"-DoutputDirectory={libs.resolve()}", "-DincludeScope=runtime"]
    done = run_maven("-f", str(begun), *copy)
    if done.returncode:
        raise not_fetched(what, done.stdout + done.stderr)
    begun.rename(complete)
    return libs
