"""`make kafka-tests`: run Apache Kafka's published integration tests against YAK.

    python tests/kafka/run.py [--suite NAME] [--workers N] [CLASS[#METHOD] ...]

Without a class all suites run, each class in a JVM of its own, and docs/kafka-tests.md is written again. Results are kept
in build/kafka-tests, a file a class; `--page` writes their rows of the page without running anything. Many tests only
wait, so each worker runs a class at a time, on clusters of its own.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = ROOT / "tests/kafka"
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from versus.kafka_jars import Missing, fetched_jars, java_version  # noqa: E402

from tests.kafka.clusters import Pool, refusals, serving  # noqa: E402
from tests.kafka.results import ClassResults, Kind, Known, page, read_page, read_results, refused_configs  # noqa: E402
from tests.kafka.suites import SUITES, VERSION, Suite, classes, pom  # noqa: E402

BUILD: Final = ROOT / "build/kafka-tests"
PAGE: Final = ROOT / "docs/kafka-tests.md"
KNOWN: Final = HERE / "known_failures.toml"
IDLE_SECONDS: Final = 300
"""A JVM that finishes no test for so long is ended."""
_POLL_SECONDS: Final = 0.5
_TEST_TIMEOUT: Final = "240 s"


def build(libs: Path) -> Path:
    """Compile the stand-ins; returns their folder. Raises Missing without a Java compiler."""
    if shutil.which("javac") is None:
        raise Missing("javac is not on PATH: a JDK compiles the classes that stand in for Kafka's")
    out = BUILD / "classes"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    sources = sorted(map(str, (HERE / "java").rglob("*.java")))
    subprocess.run(
        [
            "javac",
            "-nowarn",
            "-Xlint:-deprecation",
            "-XDignore.symbol.file",
            "-d",
            str(out),
            "-cp",
            f"{libs}/*",
            *sources,
        ],
        check=True,
    )
    shutil.copytree(HERE / "java/META-INF", out / "META-INF")
    with zipfile.ZipFile(libs / f"connect-runtime-{VERSION}-test.jar") as jar:
        # Connect's tests compile these plugins, and look for a folder
        jar.extractall(out, [name for name in jar.namelist() if name.startswith("test-plugins/")])
    return out


def run_class(name: str, method: str, class_path: str, port: int) -> ClassResults:
    """Run one class, or one method of it, in a JVM."""
    results, output = BUILD / f"{name}.jsonl", BUILD / f"{name}.log"
    results.unlink(missing_ok=True)
    selected = f"--select-method={name}#{method}" if method else f"--select-class={name}"
    command = [
        *(
            "java",
            "-Xmx1G",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dyak.pool={port}",
            f"-Dyak.results={results}",
        ),
        *("-cp", class_path, "org.junit.platform.console.ConsoleLauncher", "execute", selected),
        *("--details=none", "--disable-banner", "--config=junit.jupiter.extensions.autodetection.enabled=true"),
        f"--config=junit.jupiter.execution.timeout.default={_TEST_TIMEOUT}",
    ]
    folder = BUILD / "work" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with output.open("w") as log:
        jvm = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, cwd=folder, env=os.environ | {"TMPDIR": str(folder)}
        )
        try:
            hung = not _wait(jvm, results)
        finally:
            jvm.kill()
            jvm.wait()
    if hung:
        _add(results, name, f"ended after {IDLE_SECONDS} s in which no test finished")
    elif not results.exists():
        _add(results, name, f"no test ran; see {output.relative_to(ROOT)}")
    return read_results(name, results)


def _wait(jvm: subprocess.Popen[bytes], results: Path) -> bool:
    """Wait until the JVM ends; False when it hangs."""
    size, since = -1, time.monotonic()
    while jvm.poll() is None:
        now = results.stat().st_size if results.exists() else 0
        if now != size:
            size, since = now, time.monotonic()
        if time.monotonic() - since > IDLE_SECONDS:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _add(results: Path, name: str, reason: str) -> None:
    with results.open("a") as file:
        file.write(f'{{"class": "{name}", "name": "{name}", "status": "failed", "reason": "{reason}", "took_ms": 0}}\n')


def chosen(suites: Sequence[Suite], names: Sequence[str], libs: Path) -> list[tuple[str, str]]:
    """(class, method) of what is to run; the method is empty for all of a class. Exits with 2 for an unknown class."""
    available = {name.rpartition(".")[2]: name for suite in suites for name in classes(suite, libs)}
    left_out = {name for suite in suites for name in suite.left_out}
    if not names:
        return [(name, "") for simple, name in available.items() if simple not in left_out]
    arguments = [word.partition("#")[::2] for word in names]
    unknown = [name for name, _ in arguments if name not in available]
    if unknown:
        sys.exit(f"error: no such test class: {', '.join(unknown)}")
    return [(available[name], method) for name, method in arguments]


class Progress:
    """The classes still to run, and the results so far; several workers share it."""

    def __init__(self, work: Sequence[tuple[str, str]], class_path: str, known: Known) -> None:
        self._left = deque(enumerate(work, start=1))
        self._total, self._class_path, self._known = len(work), class_path, known
        self._lock = threading.Lock()
        self.ran: list[ClassResults] = []

    def work(self) -> None:
        """Run classes until none is left."""
        pool = Pool()
        try:
            with serving(pool.actions) as port, contextlib.suppress(IndexError):
                while True:
                    number, (name, method) = self._left.popleft()
                    began = time.monotonic()
                    each = run_class(name, method, self._class_path, port)
                    pool.take_back_all()
                    self._say(number, each, time.monotonic() - began)
        finally:
            pool.close()

    def stop(self) -> None:
        """Begin no more classes."""
        self._left.clear()

    def _say(self, number: int, each: ClassResults, took_seconds: float) -> None:
        counts = ", ".join(f"{each.counts[kind]} {kind}" for kind in Kind if each.counts[kind])
        with self._lock:
            self.ran.append(each)
            print(f"[{number}/{self._total}] {each.name}: {counts} in {took_seconds:.0f} s", flush=True)
            for test, reason in each.failures().items():
                print(f"    {test}: {self._known.why(test) or reason}", flush=True)


def write_page(libs: Path, known: Known) -> None:
    """Write the page from the kept results; a class without any keeps the row that it has on the page."""
    found: dict[str, list[ClassResults]] = {}
    before, refused = read_page(PAGE.read_text())
    for suite in SUITES:
        ran = [name for name, _ in chosen([suite], (), libs)]
        paths = [(name, BUILD / f"{name}.jsonl") for name in ran]
        each = (read_results(n, path) if path.exists() else before.get(n.rpartition(".")[2]) for n, path in paths)
        found[suite.name] = [one for one in each if one is not None]
    left_out = {name: why for suite in SUITES for name, why in suite.left_out.items()}
    # a result may be older than a config that YAK takes by now
    notes = (note for suite in found.values() for one in suite for note in one.dropped)
    PAGE.write_text(page(found, left_out, known, VERSION, refusals([*refused, *refused_configs(notes)])))
    print(f"wrote {PAGE.relative_to(ROOT)}")


def main() -> int:
    """0 when nothing surprises, 1 when something does, 2 for a wrong word. Without Java or Maven: a reason and 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=[suite.name for suite in SUITES], help="only this suite")
    parser.add_argument("--workers", type=int, default=2, help="classes that run at the same time (2)")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("names", nargs="*", metavar="CLASS[#METHOD]")
    arguments = parser.parse_args()
    try:
        java_version()
        libs = fetched_jars(BUILD / VERSION, pom(), f"the tests of Kafka {VERSION}")
        stand_ins = build(libs)
    except Missing as missing:
        print(f"skipped: {missing}")
        return 0
    known = Known.read(KNOWN)
    if arguments.page:
        write_page(libs, known)
        return 0
    suites = [suite for suite in SUITES if arguments.suite in {None, suite.name}]
    work = chosen(suites, arguments.names, libs)
    progress = Progress(work, f"{stand_ins}:{libs}/*", known)
    with ThreadPoolExecutor(arguments.workers) as workers:
        try:
            for ended in [workers.submit(progress.work) for _ in range(arguments.workers)]:
                ended.result()
        finally:
            progress.stop()
    if not arguments.names and arguments.suite is None:
        write_page(libs, known)
    surprises = known.surprises(progress.ran)
    print(*(["", "Not as known_failures.toml says:"] if surprises else []), *surprises, sep="\n")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
