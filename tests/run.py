"""`make test`: every test once, side by side; what failed is run once more, alone, and said to be flaky when it then passes.

    python tests/run.py [words for pytest]

A test that passes only when nothing else runs has a bug, or has found one; it does not hide a change that is well, nor does it
go unsaid (Apache Kafka's own build does the same: `maxTestRetries=1`, `maxTestRetryFailures`). More failures than
`AGAIN_MAX` are no coincidence and are not run again.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

AGAIN_MAX = 5
LONGEST_S = int(os.environ.get("YAK_TESTS_LONGEST_S", "3000"))
"""After this time the first run is ended and begun once more, and that is said. No test takes longer than its own time-out
of two minutes."""
CACHE = Path("build") / "test-cache"
TESTS_FAILED = 1


def run(*words: str, longest_s: float | None = None) -> int:
    """One run of pytest; its exit code. Raises TimeoutExpired."""
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={CACHE}", *words]
    # tests start hundreds of `yak` processes, and without its bytecode each of them compiles all of it: 2 s, not 0.3
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, check=False, env=environment, timeout=longest_s).returncode


def failed() -> list[str]:
    """The tests that failed in the last run, or whose worker crashed: pytest does not keep these."""
    kept: set[str] = set()
    for name in ("cache/lastfailed", "yak/crashed"):
        with contextlib.suppress(FileNotFoundError):
            kept.update(json.loads((CACHE / "v" / name).read_text()))
    return sorted(kept)


def main(words: list[str]) -> int:
    """The exit code of pytest, 0 also when what failed passed alone."""
    shutil.rmtree(CACHE, ignore_errors=True)
    try:
        code = run(*words, longest_s=LONGEST_S)
    except subprocess.TimeoutExpired:
        print(f"\nHUNG: the tests did not end in {LONGEST_S} s; once more, all of them", flush=True)
        code = run(*words)
    again = failed()
    if code != TESTS_FAILED or not 0 < len(again) <= AGAIN_MAX:
        return code
    print(f"\n{len(again)} failed beside the others; once more, alone:", *again, sep="\n  ", flush=True)
    if (code := run("-n", "0", *again)) == 0:
        print(f"\nFLAKY: {len(again)} failed beside the others and passed alone:", *again, sep="\n  ", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
