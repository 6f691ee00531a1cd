#!/bin/sh
# The Python of Spark's workers on this machine, which starts 0.6 s of processor time sooner. Spark puts the zips of PySpark
# and of py4j in front of PYTHONPATH. They hold no bytecode, so each worker compiled what it imported. The same files are
# installed beside this one.
PYTHONPATH=$PYTHONPATH:
PYTHONPATH=${PYTHONPATH#"$SPARK_HOME"/python/lib/pyspark.zip:}
PYTHONPATH=${PYTHONPATH#"$SPARK_HOME"/python/lib/py4j-*-src.zip:}
PYTHONPATH=${PYTHONPATH#"$SPARK_HOME"/jars/spark-core_*.jar:}
PYTHONPATH=${PYTHONPATH%:}
export PYTHONPATH
exec "$YAK_SPARK_WORKER_PYTHON" "$@"
