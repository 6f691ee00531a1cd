"""The progress line of a followed Spark job."""

from typing import TYPE_CHECKING

from yak.view.formats import format_size

if TYPE_CHECKING:
    from yak.commands.options import Globals
    from yak.local.spark_runs import Run


class Shown:
    """The progress line of a followed job."""

    def __init__(self, g: "Globals", run: "Run") -> None:
        self._run = run
        self._line = g.out.progress(run.id)

    def __enter__(self) -> "Shown":
        self._line.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.__exit__()

    def update(self) -> None:
        """Redraw with the job's latest progress."""
        from yak.local.spark_runs import batches_of, figures, progress_of

        progress = batches_of(progress_of(self._run))
        done = sum(line.get("input_rows") or 0 for line in progress)
        found = figures(progress)
        self._line.total = done + found["lag"] if found["lag"] else None
        if found["batch"] is None:
            self._line.update(0, "Spark is starting")
            return
        words = [f"batch {found['batch']}"]
        if found["processed_per_s"] is not None:
            words.append(f"now {found['processed_per_s']:,.0f}/s".replace(",", " "))
        if found["lag"] is not None:
            words.append(f"lag {found['lag']}")
        if found["state_bytes"]:
            words.append(f"state {format_size(found['state_bytes'])}")
        self._line.update(done, "  ".join(words))
