"""Runs a task: reads one range of one partition as Arrow batches, by the columnar reader or librdkafka."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import InputPartition

from yak.spark.columnar.schema import OffsetRange, ReadSettings, UnsupportedSetting
from yak.spark.source.errors import in_one_line
from yak.spark.source.options import LIBRDKAFKA, ReadOptions

log = logging.getLogger("yak.spark")


class RangePartition(InputPartition):
    """A task's input: an offset range, and the bootstrap servers."""

    def __init__(self, wanted: OffsetRange, servers: str) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.servers = servers

    def __repr__(self) -> str:
        return f"{self.wanted.topic}-{self.wanted.partition}[{self.wanted.start}:{self.wanted.end}]"


def batches(task: RangePartition, options: ReadOptions) -> Iterator[Any]:
    """The records of a task as `pyarrow.RecordBatch`es, in order. Raises SourceError.

    By default the columnar reader is used, and librdkafka for settings that the columnar reader does not support.
    """
    wanted = task.wanted
    settings = ReadSettings(
        bootstrap=task.servers,
        isolation=options.isolation,
        include_headers=options.include_headers,
        fail_on_data_loss=options.fail_on_data_loss,
        timeout_ms=options.timeout_ms,
        client=dict(options.client_settings),
    )
    with in_one_line():
        if options.client == LIBRDKAFKA:
            yield from _by_librdkafka(wanted, options, settings)
            return
        from yak.spark.columnar.read import read

        has_begun = False
        try:
            for batch in read(wanted, settings):
                has_begun = True
                yield batch
        except UnsupportedSetting as error:
            # After a batch the leader has moved to a broker that is too old: from its start the task would read it twice.
            if options.client is not None or has_begun:
                raise
            log.warning("%s is read through librdkafka: %s", wanted.topic, error)
            yield from _by_librdkafka(wanted, options, settings)


def _by_librdkafka(wanted: OffsetRange, options: ReadOptions, settings: ReadSettings) -> Iterator[Any]:
    from yak.spark.source.client_settings import for_librdkafka
    from yak.spark.source.librdkafka import read

    client = for_librdkafka(options.client_settings)
    if options.group_id_prefix and "group.id" not in client:
        client["group.id"] = f"{options.group_id_prefix}-{wanted.topic}-{wanted.partition}"
    yield from read(wanted, replace(settings, client=client))
