"""Starts the server of `yak ui --web`, and with `--demo` one cluster for all tabs."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from yak.errors import YakError
from yak.local.spawn import yak_argv
from yak.tui.demo.run import DemoRun
from yak.tui.web.options import WebOptions
from yak.tui.web.server import serve

Say = Callable[[str], None]


def run(options: WebOptions, arguments: Sequence[str], *, say: Say, warn: Say, demo: bool, keep: bool) -> None:
    """Serve `yak ui WORDS` to browsers until a signal. WORDS are options, `--`, and the screen.

    Raises UsageError like `serve`, and YakError if a demo cannot start.
    """
    if not demo:
        serve(options, yak_argv("ui", *arguments), say=say, warn=warn)
        return
    options.check()
    with demo_cluster(keep=keep, say=say) as (bootstrap, data_dir):
        here = arguments.index("--")  # the last `--` counts: the screen follows it
        found = (f"--bootstrap-server={bootstrap}", f"--data-dir={data_dir}")
        serve(options, yak_argv("ui", *arguments[:here], *found, *arguments[here:]), say=say, warn=warn)


@contextmanager
def demo_cluster(*, keep: bool, say: Say) -> Iterator[tuple[str, str]]:
    """A running demo cluster: bootstrap servers and data directory. It is removed afterwards, unless kept."""
    demo = DemoRun(keep=keep)
    changed = threading.Event()
    demo.on_change = changed.set
    try:
        demo.start()
        step = ""
        while demo.state.phase == "starting":
            if demo.state.step != step:
                step = demo.state.step
                say(step)
            changed.wait()
            changed.clear()
        if demo.state.phase != "running":
            raise demo.state.error or YakError("demo-ended", "the demo's cluster could not be started")
        yield demo.state.bootstrap, demo.data_dir
        if keep:
            say(f"the cluster stays; stop it: yak down --data-dir {demo.data_dir}")
    finally:
        demo.close()
