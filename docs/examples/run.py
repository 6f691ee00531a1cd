"""Run the example test suites of every language against one `yak up` of three brokers.

    python docs/examples/run.py [LANGUAGE ...]     go, java, node, python, rust; without one, all

Prints a line for each suite. One whose tool or registry is missing is skipped with the reason. Exit code 4 when a suite
failed. Ctrl+C and SIGTERM end the cluster and the suite. The suites run in copies below build/examples, where their
builds stay for the next run.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from yak.local.processes import end_processes_of

FOLDER = Path(__file__).resolve().parent
WORK = FOLDER.parents[1] / "build" / "examples"
FAILED = 4
COMMAND_SECONDS = 1800.0


@dataclass(frozen=True)
class Suite:
    """The commands of one language: `fetch` needs a registry, `test` needs none. The tool is the first word."""

    fetch: tuple[str, ...]
    test: tuple[str, ...]

    def missing(self) -> str | None:
        """The tool that is not on this machine."""
        return next((each[0] for each in (self.fetch, self.test) if shutil.which(each[0]) is None), None)


SUITES = {
    "go": Suite(("go", "mod", "download"), ("go", "test", "-count=1", "./...")),
    "java": Suite(("mvn", "-q", "-B", "test-compile"), ("mvn", "-q", "-B", "test")),
    "node": Suite(("npm", "ci", "--no-audit", "--no-fund"), ("npm", "test", "--silent")),
    "python": Suite(
        (sys.executable, "-c", "import confluent_kafka, pytest"),
        (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
    ),
    "rust": Suite(("cargo", "fetch", "--quiet"), ("cargo", "test", "--quiet")),
}


def yak(folder: str, *words: str) -> str:
    """Run `yak` with all its files, also the temporary ones, in a folder. Returns what it printed."""
    command = [sys.executable, "-P", "-m", "yak.commands", *words, "--data-dir", f"{folder}/cluster"]
    environment = {**os.environ, "TMPDIR": folder}
    run = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=COMMAND_SECONDS
    )
    return run.stdout


def run_suite(name: str, environment: dict[str, str]) -> tuple[str, str]:
    """The result (passed, failed, skipped) of one suite, and its reason or output."""
    suite = SUITES[name]
    if (tool := suite.missing()) is not None:
        return "skipped", f"{tool} is not installed"
    folder = WORK / name
    shutil.copytree(FOLDER / name, folder, dirs_exist_ok=True)
    for command, result in ((suite.fetch, "skipped"), (suite.test, "failed")):
        run = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
            start_new_session=True,
        )
        if run.returncode != 0:
            reason = "cannot fetch its requirements: " if result == "skipped" else ""
            return result, f"{reason}{' '.join(command)} ended with {run.returncode}\n{run.stdout}"
    return "passed", ""


def end_on_signal(signum: int, _frame: FrameType | None) -> None:
    """Leave through the `finally` blocks, which a second signal does not interrupt."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + signum)


def main() -> int:
    """Run the suites and print their results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help=", ".join(SUITES))
    wanted = parser.parse_args().languages or list(SUITES)
    if unknown := [each for each in wanted if each not in SUITES]:
        parser.error(f"no such suite: {', '.join(unknown)}")
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, end_on_signal)
    results = []
    with tempfile.TemporaryDirectory(prefix="yak-examples-") as name:
        no_wait = ("-c", "group.initial.rebalance.delay.ms=0")
        try:
            yak(name, "up", "-d", "--brokers", "3", "--port", "0", "--http-port", "0", *no_wait)
            environment = {**os.environ, **addresses(name)}
            for language in wanted:
                begun = time.monotonic()
                result, text = run_suite(language, environment)
                results.append(result)
                print(f"{language:7} {result} in {time.monotonic() - begun:.1f} s", text, flush=True)
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                yak(name, "down")
            for used in (name, *(str(WORK / language) for language in wanted)):
                end_processes_of(used)  # after a signal: the suite, and a cluster that was still starting
    return FAILED if "failed" in results else 0


def addresses(folder: str) -> dict[str, str]:
    """The variables that the suites read."""
    status = json.loads(yak(folder, "up", "--status", "-o", "json"))
    return {
        "KAFKA_BOOTSTRAP_SERVERS": status["bootstrap"],
        "YAK_HTTP": next(each["http_address"] for each in status["brokers"] if each["http_address"]),
    }


if __name__ == "__main__":
    sys.exit(main())
