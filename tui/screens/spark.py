"""Spark jobs: what will be here, and what to do until then."""

from textual.app import ComposeResult
from textual.widgets import Static

from yak.tui.screens.base import YakScreen
from yak.tui.widgets.panel import Panel


class SparkScreen(YakScreen):
    """Nothing yet: `yak spark` is not there."""

    TITLE_WORDS = "spark"
    AUTO_FOCUS = ""

    def body(self) -> ComposeResult:
        """What is not there, and what is."""
        yield Panel("Spark jobs", Static(id="spark-words", markup=False))

    def paint(self, now_ms: int) -> None:  # noqa: ARG002 - the words do not age
        """Where Spark connects to is known when the cluster is."""
        servers = self.app.source.bootstrap or "HOST:PORT"
        self.query_one("#spark-words", Static).update(
            "This version of YAK starts and watches no Spark jobs, so none can be shown.\n\n"
            "A job of your own can read topics with Spark's Kafka source, as from any Kafka\n"
            "(our tests do not cover that yet):\n\n"
            f'  spark.readStream.format("kafka")\n'
            f'    .option("kafka.bootstrap.servers", "{servers}")\n'
            '    .option("subscribe", "orders")\n\n'
            "A structured stream keeps its offsets in its checkpoint and not in a group:\n"
            "6 shows no lag of it. What it reads is in the rates of the topic, on 2.",
            layout=False,
        )
