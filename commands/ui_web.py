"""`yak ui --web`: passes the command line to the server and its tabs."""

import os

from yak.commands.options import Globals, words_of
from yak.errors import UsageError


def check_web(web: bool, *, plain: bool, **given: object) -> None:
    """Refuse options without effect. Raises UsageError (`usage`)."""
    idle = [name for name, value in given.items() if value is not None]
    if idle and not web:
        raise UsageError("usage", f"--{idle[0]} needs --web", why="it is about browsers", try_=("yak ui --web",))
    if web and plain:
        raise UsageError("usage", "--plain and --web exclude each other", why="one is for pipes, one for browsers")


def tab_words(
    g: Globals,
    screen: str | None,
    what: str | None,
    *,
    theme: str | None,
    is_ascii: bool,
    fps: float,
    data_dir: str | None,
) -> list[str]:
    """The arguments of `yak ui` for one tab: those of this command without the server's options."""
    words = [*words_of(g.flags), f"--fps={fps}"]
    words += [f"--theme={theme}"] if theme is not None else []
    words += ["--ascii"] if is_ascii else []
    words += [f"--data-dir={data_dir}"] if data_dir is not None else []
    return [*words, "--", *(each for each in (screen, what) if each is not None)]


def run_web(
    g: Globals,
    words: list[str],
    *,
    host: str | None,
    port: int | None,
    token: str | None,
    certificate: str | None,
    demo: bool,
    keep: bool,
) -> int:
    """Serve until Ctrl+C. Raises UsageError, see `yak.tui.web.server.serve`."""
    from yak.tui.web.launch import run
    from yak.tui.web.options import HOST, TOKEN_VARIABLE, WebOptions

    options = WebOptions(
        host=HOST if host is None else host,
        port=port,
        token=token if token is not None else os.environ.get(TOKEN_VARIABLE) or None,
        readonly=g.readonly,
        certificate=certificate,
    )
    if not demo:
        _ = g.bootstrap_servers  # report an invalid address here, not in each tab
    run(options, words, say=g.out.note, warn=g.out.warn, demo=demo, keep=keep)
    return 0
