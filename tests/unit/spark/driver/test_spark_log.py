"""What PySpark and Py4J print goes to the log."""

import subprocess
import sys
from pathlib import Path

import pytest

_JAVA_ENDS = """
import logging, sys
from pathlib import Path
from yak.spark.driver.make import quiet_python
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
quiet_python(Path(sys.argv[1]).with_name("earlier.log"))
quiet_python(Path(sys.argv[1]))
try:
    raise EOFError
except EOFError:
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error(object.__new__(server), None, ("127.0.0.1", 1))
    logging.exception("Exception while sending command.")  # as Py4J
"""


def test_traces_of_an_ended_java_go_to_the_log_and_not_to_stderr(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    log = tmp_path / "spark.log"
    ran = subprocess.run([sys.executable, "-c", _JAVA_ENDS, str(log)], capture_output=True, text=True, check=True)
    assert ran.stdout + ran.stderr == ""
    assert log.read_text().splitlines().count("EOFError") == 3
    assert (tmp_path / "earlier.log").read_text() == ""
