"""`yak ui --demo`: start the demo, show it, take it away."""

import shlex
from collections.abc import Callable
from contextlib import suppress

from yak.tui.demo.run import DemoRun
from yak.tui.settings import UiSettings


def run_demo(
    settings: UiSettings, *, keep: bool, note: Callable[[str], None], write: Callable[[str], None] | None = None
) -> int:
    """The app on a cluster of its own, until it is left; with `write`, lines in its place. Gives its exit code.

    `note` is told the last count, and where a cluster stays. Raises YakError: UsageError `no-terminal`, and what kept
    the cluster from starting.
    """
    from yak.tui import launch

    if write is None:
        launch.require_terminal()
    run = DemoRun(keep=keep)
    try:
        run.start()  # it works while the screen is loaded
        from yak.tui.demo.source import DemoSource

        source = DemoSource(run)
        if write is None:
            code = launch.run_app(source, settings)
        else:
            with suppress(KeyboardInterrupt):
                launch.run_plain(source, settings, write)
            code = 0
    finally:
        failed = run.state.error
        run.close()
    if failed is not None:
        raise failed
    for line in last_words(run):
        note(line)
    return code


def last_words(run: DemoRun) -> list[str]:
    """What the clients counted, and what became of the cluster."""
    counts, where = run.state.counts, shlex.quote(run.data_dir)
    lines = []
    if counts.acknowledged:
        final = counts.at_the_end() if run.state.phase == "ended" and counts.oldest_waiting_ms < 1_000 else counts
        lines.append(
            f"demo: acknowledged {final.acknowledged}, read {final.read}, lost {final.lost}, "
            f"duplicated {final.duplicated}, reordered {final.reordered}"
            + (f", not read in the end {final.waiting}" if final.waiting else "")
        )
    if run.keep:
        lines += [
            f"the cluster stays, at {run.state.bootstrap}",
            f"look at it:  yak ui -b {run.state.bootstrap} --data-dir {where}",
            f"stop it:     yak up --down --purge --data-dir {where}",
        ]
    else:
        lines.append("its cluster is stopped, and its data deleted")
    return lines
