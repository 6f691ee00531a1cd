"""The Python of Spark's workers on this machine: the driver's own, started without compiling PySpark first.

Spark puts SPARK_HOME's `pyspark.zip` first on its workers' path, for machines without PySpark. A zip holds no compiled
modules: each new process compiles its imports, which takes 0.9 s of a core (Python 3.11, Spark 4.3). Spark starts one
process per streaming query, and half a dozen per session. On this machine PySpark is installed and compiled.
"""

import sys

from yak.spark.session.stand_ins import quoted, stand_in

_STAND_IN = """#!/bin/sh
# A Python for Spark's workers that takes PySpark from where it is installed, and not from the zip in SPARK_HOME.
set -f
kept=
IFS=:
for each in $PYTHONPATH; do
  case "$each" in
    */pyspark.zip) ;;
    *) kept="$kept${{kept:+:}}$each" ;;
  esac
done
PYTHONPATH="$kept"
export PYTHONPATH
unset IFS
exec {python} "$@"
"""


def worker_python() -> str:
    """The value of PYSPARK_PYTHON when driver and workers share this Python's packages."""
    return stand_in("python", _STAND_IN.format(python=quoted(sys.executable))) or sys.executable
