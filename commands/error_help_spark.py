"""`yak help SLUG` for Spark: sessions, jobs, the data source."""

from yak.commands.error_explanation import Explanation, explain

_SESSION: dict[str, Explanation] = {
    "spark-missing": explain(
        "Spark cannot start: PySpark or a Java that serves is missing.",
        "They come with extras, since brokers need neither. Spark 4 needs Java 17 or newer.",
        "pip install 'yak-broker[spark]'",
        "pip install 'yak-broker[spark-java]'",
        "YAK_SPARK_PYTHON=/path/to/python yak spark …",
    ),
    "spark-options": explain(
        "An option of yak spark, or a setting of Spark's, cannot be what it was given.",
        "The message names it and says what it can be; nothing was started.",
        "yak spark run JOB --help",
    ),
    "spark-master": explain(
        "The Spark master does not answer.",
        "Nobody listens there, or it is no Spark of this version; YARN is found by HADOOP_CONF_DIR.",
        "yak spark … --master 'local[*]'",
        "check that the master is up, and its port",
    ),
    "spark-executors": explain(
        "The Spark master took the application and gave it no executor.",
        "No worker has joined it, or none has the cores and memory that were asked for; a query would wait for ever.",
        "--conf spark.executor.memory=512m --conf spark.cores.max=1",
    ),
    "spark-memory": explain(
        "Spark has too little memory.",
        "Its driver or an executor was given less than it needs to start, or a query needs more at one time than there is.",
        "--driver-memory 4g",
        "--conf spark.executor.memory=4g",
    ),
    "spark-died": explain(
        "Java, in which Spark runs, ended by itself.",
        "It was killed, often by the kernel for its memory, or could not start; the end of its log says what it knew.",
        "look into the log that the error names",
        "--driver-memory 1g",
    ),
    "spark-package": explain(
        "A jar that the session needs is not there.",
        "Spark's Kafka connector, Delta and Iceberg are jars apart: from Maven, or a file of yours.",
        "--packages GROUP:NAME:VERSION",
        "--jars /path/to/the.jar",
    ),
    "spark-path": explain(
        "A file or folder is not there, or may not be written.",
        "Spark's own user needs it too, on every worker, unless it is on a file system that all of them see.",
        "check the path and who may write there",
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
        "The innermost cause is told; the whole trace is in the log that the error names.",
        "less ~/.local/state/yak/spark/ID/spark.log",
    ),
    "spark-program": explain(
        "A program that was submitted ended with an error of its own.",
        "The error and its line are told; what it wrote to stderr is in the file that is named.",
        "look into stderr.txt of the job's folder",
    ),
    "spark-job": explain(
        "There is no job of this name.",
        "yak comes with a few; programs of your own are submitted.",
        "yak spark jobs",
        "yak spark submit FILE.py",
    ),
    "unknown-run": explain(
        "No Spark job of this id was started from here.",
        "yak spark knows the jobs that this user started on this machine, the last 50 that ended among them.",
        "yak spark status --all",
    ),
    "spark-stop": explain(
        "A Spark job did not end in time after it was asked to.",
        "It ends between two batches; a long one is under way, or Java hangs.",
        "yak spark stop ID --now",
    ),
    "spark-sql": explain(
        "Spark's parser or analyzer refused a query.",
        "A word is misspelt, a column is not there, or types do not go together; Spark's own condition is in brackets.",
        "yak spark sql --help",
    ),
    "spark-checkpoint": explain(
        "A checkpoint is of another query.",
        "Offsets and state belong to the query that wrote them: another job, topic or window cannot go on from there.",
        "choose another --checkpoint-dir",
        "run it with the options that it was started with",
    ),
    "spark-checkpoint-used": explain(
        "Another query is using this checkpoint now.",
        "Two at a time would write over each other.",
        "yak spark status",
        "choose another --checkpoint-dir",
    ),
    "spark-no-checkpoint": explain(
        "A sink that lasts was given no checkpoint.",
        "Without one, a job that is started again does not know what it has written, and writes it twice.",
        "--checkpoint-dir ./checkpoints/NAME",
    ),
    "spark-sink": explain(
        "This is no place that a job can write to.",
        "A sink is console, topic:NAME, parquet:FOLDER or memory:NAME.",
        "--sink topic:results",
    ),
    "spark-output-exists": explain(
        "The folder that a batch was to write is not empty.",
        "A batch writes its whole result once; another one beside it would double records.",
        "choose another folder",
    ),
    "spark-archive": explain(
        "An archive is not what it should be.",
        "The folder holds no archive, or not of this topic, or its files do not agree with its books.",
        "check the folder and the topic",
    ),
    "spark-format": explain(
        "This Spark cannot write this format.",
        "Delta and Iceberg are jars apart.",
        "--packages GROUP:NAME:VERSION",
        "--format parquet",
    ),
    "spark-connect": explain(
        "A job that needs a driver of its own was given a Spark Connect server.",
        "It keeps its books through the driver's file system.",
        "--master spark://HOST:7077",
    ),
}
_SOURCE: dict[str, Explanation] = {
    "spark-option": explain(
        'An option of format("yak") cannot be taken.',
        "Its name or value is none that the data source knows; names are those of Spark's Kafka source.",
        "look at the options in docs/spark.md",
    ),
    "spark-offset-range": explain(
        "Offsets that were asked for are not in the topic.",
        "They lie behind its end, or were deleted by retention.",
        "yak topics describe TOPIC",
        "startingOffsets=earliest",
    ),
    "spark-data-loss": explain(
        "Records that a query was to read are gone.",
        "Retention deleted them, or the topic was deleted, before they were processed.",
        'to read on without them: .option("failOnDataLoss", "false")',
    ),
    "spark-schema": explain(
        "The columns do not fit.",
        "A frame that is written needs value, and may have key, topic, partition, timestamp and headers, of their types.",
        "df.selectExpr('CAST(key AS BINARY) AS key', 'to_json(struct(*)) AS value')",
    ),
    "spark-json": explain(
        "A record's value is not JSON of the schema that was given.",
        "With mode=failfast the first such record ends the query.",
        "mode=permissive",
        "mode=dropmalformed",
    ),
    "spark-write": explain(
        "Records could not be written to a topic.",
        "The brokers refused them or did not answer in time; Spark tries the batch again, so some may be there twice.",
        "yak isr --under-replicated",
    ),
}  # fmt: skip
SPARK: dict[str, Explanation] = {**_SESSION, **_RUNS, **_SOURCE}
