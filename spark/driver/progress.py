"""Collects the progress of a streaming query's batches from Spark's listener, reduced to a few numbers."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from yak.view.lag import lag_records

Lines = Callable[[Mapping[str, Any]], None]


def listen(spark: Any, take: Lines) -> Any:
    """Call `take` with a line for each batch of each query in the session; return the listener, for removal."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            take({"time_ms": _now_ms(), "event": "started", "query": event.name, "query_id": str(event.id)})

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            take(line_of(json.loads(event.progress.json)))

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            take({"time_ms": _now_ms(), "event": "idle", "query_id": str(event.id)})

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            line = {"time_ms": _now_ms(), "event": "ended", "query_id": str(event.id)}
            take(line | {"error": (event.exception or "").split("\n")[0] or None})

    listener = Listener()
    spark.streams.addListener(listener)
    return listener


def wait_for_last(spark: Any) -> None:
    """Wait until the listener has received all events: its thread is delayed, and an ended session delivers no more."""
    with suppress(Exception):  # with Spark Connect, or after Java's end, there is nothing to wait for
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(5_000)  # noqa: SLF001 - no public way


def line_of(progress: Mapping[str, Any]) -> dict[str, Any]:
    """A batch for storage, from StreamingQueryProgress as JSON; rates are per second, sizes in bytes."""
    operators = progress.get("stateOperators") or []
    return {
        "time_ms": _now_ms(),
        "event": "batch",
        "query": progress.get("name"),
        "query_id": progress.get("id"),
        "batch": progress.get("batchId"),
        "input_rows": progress.get("numInputRows", 0),
        "input_per_s": _finite(progress.get("inputRowsPerSecond")),
        "processed_per_s": _finite(progress.get("processedRowsPerSecond")),
        "duration_ms": (progress.get("durationMs") or {}).get("triggerExecution"),
        "lag": lag_of(progress),
        "state_rows": sum(each.get("numRowsTotal", 0) for each in operators) if operators else None,
        "state_bytes": sum(each.get("memoryUsedBytes", 0) for each in operators) if operators else None,
        "dropped_late": sum(each.get("numRowsDroppedByWatermark", 0) for each in operators) if operators else None,
        "watermark": (progress.get("eventTime") or {}).get("watermark"),
        "sink": (progress.get("sink") or {}).get("description"),
    }


def lag_of(progress: Mapping[str, Any]) -> int | None:
    """Records in the topics that no batch has read; None when a source does not report its end offsets."""
    behind = 0
    for source in progress.get("sources") or []:
        reported = (source.get("metrics") or {}).get("recordsBehindLatest")
        end, latest = offsets_in(source.get("endOffset")), offsets_in(source.get("latestOffset"))
        if reported is not None:
            behind += int(reported)
        elif latest and end is not None:
            behind += sum(lag_records(end.get(place, 0), offset) for place, offset in latest.items())
        else:
            return None
    return behind if progress.get("sources") else None


def offsets_in(found: Any) -> dict[tuple[str, str], int] | None:
    """Topic and partition to offset, from a source's offset: `{"orders": {"0": 12}}`, perhaps as text."""
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            return None
    if isinstance(found, str):
        return offsets_in(found)
    if not isinstance(found, dict):
        return None
    offsets: dict[tuple[str, str], int] = {}
    for topic, partitions in found.items():
        if isinstance(partitions, dict):
            offsets |= {
                (str(topic), str(partition)): offset
                for partition, offset in partitions.items()
                if isinstance(offset, int) and str(partition).isdigit()
            }
    return offsets


def _finite(value: Any) -> float | None:
    """None for NaN and Infinity, which Spark reports for the first batch and JSON does not have."""
    if not isinstance(value, int | float) or value != value or value in (float("inf"), float("-inf")):
        return None
    return round(float(value), 1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
