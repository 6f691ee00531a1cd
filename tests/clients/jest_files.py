"""Run a library's test files with jest, one process each: a file that hangs is ended, and the next one runs.

    python jest_files.py REPORT CONFIG [LEFT_OUT ...]

It runs in the library's sources. The files LEFT_OUT are not run. REPORT
gets a line of JSON when a file ends: its path and each test's name and status, or null if it did not end.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

FILE_SECONDS: Final = 300
"""The slowest file takes 85 s. One test may take 90 s in kafkajs's setup of jest."""
_NEEDS_BROKER: Final = re.compile(
    r"create(Cluster|ConnectionPool|ConnectionBuilder|Topic)\(|connectionOpts|plainTextBrokers"
)
"""The helpers of kafkajs that reach a broker. A test file without them is a unit test."""


def main() -> None:
    """Run all files; the report says what passed."""
    report, config, *left_out = sys.argv[1:]
    files = [str(path) for path in sorted(Path("src").rglob("*.spec.js"))]
    with Path(report).open("w") as lines:
        for file in files:
            if file not in left_out and _NEEDS_BROKER.search(Path(file).read_text()):
                print(json.dumps({"file": file, "tests": _run(file, config)}), file=lines, flush=True)


def _run(file: str, config: str) -> list[tuple[str, str]] | None:
    """The name and status of each test; None when the file did not load or end."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output.json")
        command = ["node_modules/.bin/jest", "--config", config, "--ci", "--runInBand", "--forceExit"]
        command += [
            "--json",
            f"--outputFile={output}",
            "--runTestsByPath",
            file,
        ]
        try:
            subprocess.run(command, timeout=FILE_SECONDS, stdout=subprocess.DEVNULL, check=False)
        except subprocess.TimeoutExpired:
            print(f"{file}: ended after {FILE_SECONDS} s", file=sys.stderr, flush=True)
        results: list[Any] = json.loads(output.read_text())["testResults"] if output.exists() else []
    tests = [(test["fullName"], test["status"]) for each in results for test in each["assertionResults"]]
    return tests or None


if __name__ == "__main__":
    main()
