"""Reads a topic with Spark's own Kafka connector, committed records only: BOOTSTRAP TOPIC FOLDER JAR[,JAR].

It takes commands from its input, and answers each with a line of JSON: `batch` with the values of a batch read, `stream` with
those that the streaming query has written, up to the end of what is committed, `restart` when the query has started again.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

BOOTSTRAP, TOPIC, FOLDER, JARS = sys.argv[1:]
READ_SPLIT = {"minPartitions": "7"}
"""More Spark partitions than the topic has, so that ranges begin and end within transactions."""
STREAM_SPLIT = {"maxOffsetsPerTrigger": "150"}


def make_session() -> SparkSession:
    """Two cores, without Python workers."""
    builder = SparkSession.builder.master("local[2]").appName("spark-committed")
    settings = {
        "spark.jars": JARS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{FOLDER}/warehouse",
        "spark.local.dir": f"{FOLDER}/local",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def committed(reader: Any, more: dict[str, str]) -> Any:
    """The topic's values."""
    options = {
        "kafka.bootstrap.servers": BOOTSTRAP,
        "kafka.isolation.level": "read_committed",
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
    }
    return reader.format("kafka").options(**options, **more).load().selectExpr("CAST(value AS STRING) AS value")


def main() -> None:
    """Serve commands until the input ends."""
    session = make_session()
    writer = committed(session.readStream, STREAM_SPLIT).writeStream.format("json").option("path", f"{FOLDER}/rows")
    writer = writer.option("checkpointLocation", f"{FOLDER}/checkpoint").trigger(processingTime="200 milliseconds")
    query = writer.start()
    for line in sys.stdin:
        answer: list[str] = []
        if line == "batch\n":
            answer = [row.value for row in committed(session.read, READ_SPLIT).collect()]
        elif line == "stream\n":
            query.processAllAvailable()
            answer = [row.value for row in session.read.schema("value STRING").json(f"{FOLDER}/rows").collect()]
        else:
            query.stop()
            query = writer.start()
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    query.stop()
    session.stop()


if __name__ == "__main__":
    main()
