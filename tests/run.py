"""`make test`: every test once, side by side; what failed is run once more, alone, and is flaky when it then passes.

    python tests/run.py [--lint] [--workers N] [words for pytest]

With --lint, `make lint` runs beside the tests: it keeps one processor busy for two minutes, and the tests leave some idle.

A test that passes only when nothing else runs has a bug, or has found one. It fails the run, unless `tests/flaky.toml`
lists it with a reason. Failures in more files than `AGAIN_FILES_MAX` are no coincidence and are not run again. With
YAK_TESTS_FLAKY=reported, as `.ci/run` sets it, an unlisted flaky test is reported as an error and the run goes on.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests import flaky

AGAIN_FILES_MAX = 5
LONGEST_S = int(os.environ.get("YAK_TESTS_LONGEST_S", "3000"))
"""After this time the run is ended and has failed. No test takes longer than its own time-out of two minutes."""
FLAKY_IS_REPORTED = os.environ.get("YAK_TESTS_FLAKY") == "reported"
CACHE = Path("build") / "test-cache"
TESTS_FAILED = 1
UNUSABLE = 2
LINT = ("make", "lint")


class Lint:
    """`make lint` beside the tests."""

    def __init__(self, command: Sequence[str] = LINT) -> None:
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this
        self._began_s = time.monotonic()
        self._process = subprocess.Popen(command, stdout=self._printed, stderr=subprocess.STDOUT)

    def passes(self) -> bool:
        """Wait for its end, and print what it printed if it failed."""
        code = self._process.wait()
        if code:
            self._printed.seek(0)
            print(f"\nerror[lint]: make lint failed:\n{self._printed.read().decode(errors='replace')}", flush=True)
        else:
            print(
                f"\nlint passed, {time.monotonic() - self._began_s:.0f} s after it began beside the tests", flush=True
            )
        return code == 0


def run(*words: str) -> int:
    """One run of pytest; its exit code. Raises TimeoutExpired."""
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={CACHE}", *words]
    # tests start hundreds of `yak` processes, and without its bytecode each of them compiles all of it: 2 s, not 0.3
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, check=False, env=environment, timeout=LONGEST_S).returncode


def failed() -> list[str]:
    """The tests that failed in the last run."""
    path = CACHE / "v" / "cache" / "lastfailed"
    return sorted(json.loads(path.read_text())) if path.exists() else []


def verdict(tests: Sequence[str], reasons: Mapping[str, str]) -> tuple[int, str]:
    """The exit code, and what to say, when these tests failed beside the others and passed alone."""
    listed = [(each, why) for each in tests if (why := flaky.reason(each, reasons))]
    others = [each for each in tests if not flaky.reason(each, reasons)]
    lines = [f"FLAKY, but listed in tests/flaky.toml: {each}\n  why:  {why}" for each, why in listed]
    if others:
        lines += [
            "\n  ".join([f"error[flaky-tests]: {len(others)} failed beside the others and passed alone:", *others]),
            "  try:  repair the test, or what it found; or list it in tests/flaky.toml with the reason",
        ]
    return TESTS_FAILED if others else 0, "\n".join(lines)


def main(words: list[str]) -> int:
    """The exit code of the tests, or 1 if they pass and `make lint` does not."""
    lint = Lint() if "--lint" in words else None
    code = run_tests([each for each in words if each != "--lint"])
    is_clean = lint is None or lint.passes()
    return code or (0 if is_clean else TESTS_FAILED)


def run_tests(words: list[str]) -> int:
    """The exit code of pytest; 0 also when all that failed passed alone and is listed."""
    try:
        reasons = flaky.load()
    except ValueError as error:
        print(f"error[flaky-list]: {error}", file=sys.stderr)
        return UNUSABLE
    shutil.rmtree(CACHE, ignore_errors=True)
    try:
        code = run(*words)
    except subprocess.TimeoutExpired:
        print(f"\nerror[tests-hang]: the tests did not end in {LONGEST_S} s", flush=True)
        return TESTS_FAILED
    again = failed()
    files = {each.partition("::")[0] for each in again}  # a fixture that fails may fail all tests of a file
    if code != TESTS_FAILED or not 0 < len(files) <= AGAIN_FILES_MAX:
        return code
    print(f"\n{len(again)} failed beside the others; once more, alone:", *again, sep="\n  ", flush=True)
    if code := run(*again):
        return code
    code, text = verdict(again, reasons)
    print(f"\n{text}", flush=True)
    return 0 if FLAKY_IS_REPORTED else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
