"""The example suite that needs nothing but this environment, against one `yak up`; `make examples` runs them all."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import wait_until

from yak.local.processes import end_processes_of, processes_of

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


@pytest.mark.parametrize(
    ("moment", "signal_number"), [("the cluster starts", signal.SIGTERM), ("a suite runs", signal.SIGINT)]
)
def test_examples_ended_by_a_signal_leave_no_cluster_and_no_suite(moment, signal_number, tmp_path):
    folder, tools, begun = tmp_path / "folder", tmp_path / "tools", tmp_path / "begun"
    suite = str(ROOT / "build/examples/go")
    folder.mkdir()
    tools.mkdir()
    go = tools / "go"
    go.write_text(f"""#!/bin/sh\n[ "$1" = mod ] && exit\nsleep 600 &\necho $! > {begun}\nwait\n""")
    go.chmod(0o755)
    environment = {**os.environ, "TMPDIR": str(folder), "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "docs/examples/run.py", "go"]
    run = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: begun.exists() if moment == "a suite runs" else any(folder.glob("*/cluster/*")), moment)
        run.send_signal(signal_number)
        _, printed = run.communicate(timeout=60)
        wait_until(lambda: processes_of(str(folder)) + processes_of(suite) == [], "no process is left", 10)
        assert list(folder.iterdir()) == []
        assert run.returncode == 128 + signal_number
        assert "Traceback" not in printed
    finally:
        run.kill()
        end_processes_of(str(folder))
        end_processes_of(suite)
