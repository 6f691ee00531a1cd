"""Windows of event time: tumbling, sliding, session."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yak.spark.jobs.options import duration_ms, interval
from yak.spark.jobs.topic_frames import EventOptions
from yak.view.flags import flag

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, kw_only=True)
class WindowOptions(EventOptions):
    """Options for the windows of a job."""

    window: str = flag("--window", "Length of a window.", metavar="DURATION", default="1m")
    slide: str | None = flag("--slide", "A window begins every DURATION.  [one after the other]", metavar="DURATION")
    session_gap: str | None = flag(
        "--session-gap", "Windows that end after so long a silence of a key.", metavar="DURATION"
    )

    def check(self) -> None:
        super().check()
        from yak.spark.jobs.frame import unsupported

        length_ms = duration_ms(self.window)
        if length_ms == 0 or (self.session_gap is not None and duration_ms(self.session_gap) == 0):
            raise unsupported("a window of no length", "windows and gaps are longer than 0", "--window 1m")
        if self.slide is not None and self.session_gap is not None:
            raise unsupported("--slide and --session-gap exclude each other", "a session has no fixed beginning")
        if self.slide is not None and not 0 < duration_ms(self.slide) <= length_ms:
            raise unsupported(
                f"--slide {self.slide} does not go with --window {self.window}",
                "a window begins at least as often as one ends",
                "--window 1m --slide 10s",
            )


IDENTITY = ("window", "slide", "session_gap", "key_field", "time_field", "watermark", "mode")
"""The options that shape the state between batches."""


def window_column(options: WindowOptions) -> "Column":
    """The window of a row, by its `time`."""
    from pyspark.sql import functions as f

    if options.session_gap is not None:
        return f.session_window("time", interval(options.session_gap)).alias("window")
    slide = interval(options.slide) if options.slide is not None else None
    return f.window("time", interval(options.window), slide).alias("window")


def modes(options: Any) -> tuple[str, ...]:
    """The output modes of a windowed aggregate: Spark has no update mode for session windows."""
    return ("append", "complete") if options.session_gap is not None else ("update", "append", "complete")


def with_watermark(frame: "DataFrame", options: EventOptions) -> "DataFrame":
    """The rows with a watermark, which bounds how late they may be."""
    return frame.withWatermark("time", interval(options.watermark))
