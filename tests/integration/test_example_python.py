"""The example suite that needs nothing but this environment, against one `yak up`; `make examples` runs them all."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_python_example_passes_against_one_cluster():
    run = subprocess.run(
        [sys.executable, "docs/examples/run.py", "python"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.startswith("python  passed")
