"""Run the example test suites of every language against one `yak up` of three brokers.

    python docs/examples/run.py [LANGUAGE ...]     go, java, node, python, rust; without one, all

Prints a line for each suite. One whose tool or registry is missing is skipped with the reason. Exit code 4 when a suite
failed. The suites run in copies below build/examples, where their builds stay for the next run.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

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


def yak(*words: str) -> str:
    """Run `yak`, and return what it printed."""
    command = [sys.executable, "-P", "-m", "yak.commands", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=COMMAND_SECONDS).stdout


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
        )
        if run.returncode != 0:
            reason = "cannot fetch its requirements: " if result == "skipped" else ""
            return result, f"{reason}{' '.join(command)} ended with {run.returncode}\n{run.stdout}"
    return "passed", ""


def main() -> int:
    """Run the suites and print their results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help=", ".join(SUITES))
    wanted = parser.parse_args().languages or list(SUITES)
    if unknown := [each for each in wanted if each not in SUITES]:
        parser.error(f"no such suite: {', '.join(unknown)}")
    results = []
    with tempfile.TemporaryDirectory(prefix="yak-examples-") as name:
        data_dir = str(Path(name) / "cluster")
        no_wait = ("-c", "group.initial.rebalance.delay.ms=0")
        yak("up", "-d", "--brokers", "3", "--port", "0", "--http-port", "0", "--data-dir", data_dir, *no_wait)
        try:
            environment = {**os.environ, **addresses(data_dir)}
            for language in wanted:
                begun = time.monotonic()
                result, text = run_suite(language, environment)
                results.append(result)
                print(f"{language:7} {result} in {time.monotonic() - begun:.1f} s", text, flush=True)
        finally:
            yak("down", "--data-dir", data_dir)
    return FAILED if "failed" in results else 0


def addresses(data_dir: str) -> dict[str, str]:
    """The variables that the suites read."""
    status = json.loads(yak("up", "--status", "-o", "json", "--data-dir", data_dir))
    return {
        "KAFKA_BOOTSTRAP_SERVERS": status["bootstrap"],
        "YAK_HTTP": next(each["http_address"] for each in status["brokers"] if each["http_address"]),
    }


if __name__ == "__main__":
    sys.exit(main())
