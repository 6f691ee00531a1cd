"""`yak help SLUG` for Spark: sessions, jobs, the data source."""

from yak.commands.error_explanation import Explanation, explain

_SESSION: dict[str, Explanation] = {
    "spark-missing": explain(
        "Spark cannot start: PySpark or a suitable Java is missing.",
        "PySpark is an optional extra, because brokers do not need it. Spark 4 needs Java 17 or newer.",
        "pip install 'yak-broker[spark]'",
        "apt install openjdk-17-jre-headless",
        "YAK_SPARK_PYTHON=/path/to/python yak spark …",
    ),
    "spark-options": explain(
        "An option of yak spark, or a setting of Spark, has an invalid value.",
        "The message names it and the valid values. Nothing was started.",
        "yak spark run JOB --help",
    ),
    "spark-master": explain(
        "The Spark master does not answer.",
        "No master listens there, or it has another Spark version. YARN needs HADOOP_CONF_DIR.",
        "yak spark … --master 'local[*]'",
        "check that the master is up, and its port",
    ),
    "spark-executors": explain(
        "The Spark master accepted the application but started no executor.",
        "No worker is registered, or none has the requested cores and memory. A query would wait for ever.",
        "--conf spark.executor.memory=512m --conf spark.cores.max=1",
    ),
    "spark-memory": explain(
        "Spark has too little memory.",
        "The driver or an executor has less than it needs to start, or a query needs more than is available.",
        "--driver-memory 4g",
        "--conf spark.executor.memory=4g",
    ),
    "spark-died": explain(
        "Spark's Java process exited.",
        "It was killed, often by the kernel's OOM killer, or could not start. See the end of its log.",
        "see the log that the error names",
        "--driver-memory 1g",
    ),
    "spark-package": explain(
        "A jar that the session needs is missing.",
        "Spark's Kafka connector, Delta and Iceberg are separate jars: from Maven, or a local file.",
        "--packages GROUP:NAME:VERSION",
        "--jars /path/to/the.jar",
    ),
    "spark-path": explain(
        "A file or folder does not exist, or cannot be written.",
        "Spark's user needs access on every worker, or the path must be on a shared file system.",
        "check the path and its permissions",
    ),
    "spark-state": explain(
        "The folder in which yak keeps the state of Spark jobs cannot be written.",
        "It is $XDG_STATE_HOME/yak/spark, by default ~/.local/state/yak/spark.",
        "XDG_STATE_HOME=/a/folder/of/yours yak spark …",
    ),
}
_RUNS: dict[str, Explanation] = {
    "spark-failed": explain(
        "A Spark job or query failed while it ran.",
        "The message has the innermost cause. The log that it names has the full trace.",
        "less ~/.local/state/yak/spark/ID/spark.log",
    ),
    "spark-program": explain(
        "A submitted program failed.",
        "The message has the error and its line, and names the file with the program's stderr.",
        "see stderr.txt in the job's folder",
    ),
    "spark-job": explain(
        "No job has that name.",
        "yak includes a few jobs. Submit your own programs.",
        "yak spark jobs",
        "yak spark submit FILE.py",
    ),
    "unknown-run": explain(
        "No Spark job with that id was started here.",
        "yak spark lists this user's jobs on this machine, including the last 50 that ended.",
        "yak spark status --all",
    ),
    "spark-stop": explain(
        "A Spark job did not stop in time.",
        "A job stops between two batches. A long batch is running, or Java hangs.",
        "yak spark stop ID --now",
    ),
    "spark-sql": explain(
        "Spark's parser or analyzer rejected a query.",
        "A word is misspelt, a column does not exist, or types do not match. Spark's error condition is in brackets.",
        "yak spark sql --help",
    ),
    "spark-checkpoint": explain(
        "A checkpoint belongs to another query.",
        "Only the query that wrote a checkpoint can continue from it: the same job, topic and window.",
        "choose another --checkpoint-dir",
        "run the query with its original options",
    ),
    "spark-checkpoint-used": explain(
        "Another query is using this checkpoint now.",
        "Two queries would overwrite each other's state.",
        "yak spark status",
        "choose another --checkpoint-dir",
    ),
    "spark-no-checkpoint": explain(
        "A durable sink needs a checkpoint.",
        "Without one, a restarted job would write its results twice.",
        "--checkpoint-dir ./checkpoints/NAME",
    ),
    "spark-sink": explain(
        "The sink is invalid.",
        "A sink is console, topic:NAME, parquet:FOLDER or memory:NAME.",
        "--sink topic:results",
    ),
    "spark-output-exists": explain(
        "The output folder of a batch is not empty.",
        "A batch writes its complete result once; a second result would duplicate records.",
        "choose another folder",
    ),
    "spark-archive": explain(
        "The archive is invalid.",
        "The folder has no archive or an archive of another topic. Or an earlier version wrote it: that one can be read only.",
        "check the folder and the topic",
    ),
    "spark-format": explain(
        "This Spark cannot write this format.",
        "Delta and Iceberg are separate jars.",
        "--packages GROUP:NAME:VERSION",
        "--format parquet",
    ),
    "spark-connect": explain(
        "This job needs its own driver and cannot use a Spark Connect server.",
        "It checks its checkpoint through the driver's file system.",
        "--master spark://HOST:7077",
    ),
}
_SOURCE: dict[str, Explanation] = {
    "spark-option": explain(
        'An option of format("yak") is invalid.',
        "The data source does not know its name or value. Names are those of Spark's Kafka source.",
        "see the options in docs/spark.md",
    ),
    "spark-offset-range": explain(
        "Requested offsets are not in the topic.",
        "They are beyond the log end, or were deleted by retention.",
        "yak topics describe TOPIC",
        "startingOffsets=earliest",
    ),
    "spark-data-loss": explain(
        "Records that a query must read were deleted.",
        "Retention deleted them, or the topic was deleted, before the query read them.",
        'to continue without them: .option("failOnDataLoss", "false")',
    ),
    "spark-schema": explain(
        "The columns do not match the schema of the sink.",
        "A written frame needs the column value. It may have key, topic, partition, timestamp and headers.",
        "df.selectExpr('CAST(key AS BINARY) AS key', 'to_json(struct(*)) AS value')",
    ),
    "spark-json": explain(
        "A record's value is not JSON of the given schema.",
        "With mode=failfast the first such record ends the query.",
        "mode=permissive",
        "mode=dropmalformed",
    ),
    "spark-write": explain(
        "Records could not be written to a topic.",
        "The brokers rejected them or timed out. Spark retries the batch, so records may be duplicated.",
        "yak isr --under-replicated",
    ),
}  # fmt: skip
SPARK: dict[str, Explanation] = {**_SESSION, **_RUNS, **_SOURCE}
