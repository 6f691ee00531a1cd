"""The Python of Spark's workers on this machine: ours, started so that it need not compile PySpark first.

Spark puts SPARK_HOME's `pyspark.zip` before everything else on its workers' path, for machines that have no PySpark. A zip
holds no compiled modules: each process that Spark starts anew, one for every streaming query and half a dozen for a session,
compiles what it imports, which takes 0.9 s of a core (Python 3.11, Spark 4.3). Here PySpark is installed, and compiled.
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
    """What PYSPARK_PYTHON is to be where driver and workers share this Python's packages."""
    return stand_in("python", _STAND_IN.format(python=quoted(sys.executable))) or sys.executable
