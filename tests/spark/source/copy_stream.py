"""Copies a topic into another in small batches until it is killed: `copy_stream.py BOOTSTRAP FOLDER SOURCE TARGET`."""

import sys
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import StructType

from yak.spark import YakDataSource
from yak.spark.driver.make import make_session
from yak.spark.driver.settings import SessionSettings
from yak.spark.source.write import StreamWriter, WriteResult, write_options

ROWS_PER_BATCH = 200


class SlowWriter(StreamWriter):
    """Writes a task's rows over 150 ms, so that kills come in the middle of a transaction."""

    def write(self, iterator: Iterator[Any]) -> WriteResult:
        return super().write(self._slowly(iterator))

    def _slowly(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for start in range(0, batch.num_rows, 20):
                yield batch.slice(start, 20)
                time.sleep(0.03)


class SlowSource(YakDataSource):
    @classmethod
    def name(cls) -> str:
        return "slow-yak"

    def streamWriter(self, schema: StructType, overwrite: bool) -> SlowWriter:  # noqa: N802
        return SlowWriter(write_options(self.options, overwrite), schema)


def main() -> None:
    bootstrap, folder, source, target = sys.argv[1:]
    # local[2,4]: a task whose Python worker was killed runs again, as on executors.
    spark = make_session(SessionSettings(master="local[2,4]", driver_memory="1g"))
    spark.dataSource.register(SlowSource)
    rows = spark.readStream.format("yak").options(
        bootstrap=bootstrap, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=ROWS_PER_BATCH
    )
    writer = rows.load().select("value").writeStream.format("slow-yak")
    writer = writer.options(bootstrap=bootstrap, topic=target, transactional=True, checkpointLocation=folder)
    writer.trigger(processingTime="0 seconds").start().awaitTermination()


if __name__ == "__main__":
    main()
