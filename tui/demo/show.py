"""`yak ui --demo`: start the demo, show it, remove it."""

import shlex
from collections.abc import Callable
from contextlib import suppress

from yak.tui.demo.run import DemoRun
from yak.tui.settings import UiSettings


def run_demo(
    settings: UiSettings,
    *,
    keep: bool,
    note: Callable[[str], None],
    write: Callable[[str], None] | None = None,
    require_reader: Callable[[], None] = lambda: None,
) -> int:
    """Run the app on a cluster of its own; with `write`, print lines instead (`launch.run_plain`). Returns its exit code.

    `note` receives the last count, and the place of a kept cluster. Raises YakError: UsageError `no-terminal`, and the
    reason if the cluster does not start.
    """
    from yak.tui import launch

    if write is None:
        launch.require_terminal()
    run = DemoRun(keep=keep)
    try:
        run.start()  # starts while the screen is loaded
        from yak.tui.demo.source import DemoSource

        source = DemoSource(run)
        if write is None:
            code = launch.run_app(source, settings)
        else:
            with suppress(KeyboardInterrupt):
                launch.run_plain(source, settings, write, require_reader)
            code = 0
    finally:
        failed = run.state.error
        run.close()
    if failed is not None:
        raise failed
    with suppress(OSError):  # the terminal may be gone
        for line in summary(run):
            note(line)
    return code


def summary(run: DemoRun) -> list[str]:
    """The clients' final counts, and the state of the cluster."""
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
            f"stop it:     yak down --purge --data-dir {where}",
        ]
    else:
        lines.append("its cluster is stopped, and its data deleted")
    return lines
