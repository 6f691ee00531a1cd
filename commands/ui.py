"""`yak ui`."""

import os
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from yak.commands.app import CONNECTION, OUTPUT, START, WHAT, Bundle, as_arguments, command, flag
from yak.commands.options import Globals
from yak.commands.parameters import argument
from yak.errors import UsageError
from yak.plain_text import one_line

if TYPE_CHECKING:
    from yak.tui.settings import UiSettings
    from yak.tui.source.base import ClusterSource

_PATIENCE_S = 1.0
_WEB = "In a browser"
_EXTRAS = {"ui": ("httpx", "textual"), "web": ("httpx", "textual", "aiohttp", "textual_serve")}


@dataclass(frozen=True)
class ScreenOptions(Bundle):
    """What a terminal and each tab of a browser get."""

    theme: str | None = flag(
        "--theme", "yak-dark, yak-light, yak-contrast, yak-deutan, mono, ansi.", OUTPUT, metavar="NAME"
    )
    ascii: bool = flag("--ascii", "ASCII characters only.", OUTPUT, default=False)
    no_motion: bool = flag("--no-motion", "Nothing blinks or moves.", OUTPUT, default=False)
    fps: float = flag("--fps", "Largest number of updates a second.", OUTPUT, default=4.0, metavar="N", min=0.2, max=10)
    data_dir: str | None = flag(
        "--data-dir", "The yak up directory whose brokers can be killed.", CONNECTION, metavar="DIR"
    )


@dataclass(frozen=True)
class ServerOptions(Bundle):
    """The server for browsers."""

    host: str | None = flag("--host", "Address to listen on; 127.0.0.1 if not given.", _WEB, metavar="HOST")
    port: int | None = flag(
        "--port", "8090 or the next free one if not given; 0: any.", _WEB, metavar="N", min=0, max=65_535
    )
    token: str | None = flag("--token", "Token that browsers need; or YAK_UI_TOKEN.", _WEB, metavar="SECRET")
    certificate: str | None = flag(
        "--certificate", "Serve HTTPS; private key and certificate in PEM.", _WEB, metavar="FILE"
    )


def is_first_run(g: Globals, settings: "UiSettings") -> bool:
    """Whether no cluster is configured, and none answers at the default address."""
    from yak.client.reach import probe
    from yak.commands.local_cluster import bootstrap_servers

    if settings.is_public or settings.contexts or bootstrap_servers(g.settings).origin != "default":
        return False
    return all(probe(address, _PATIENCE_S).outcome != "kafka" for address in g.bootstrap_servers.split(","))


def first_run(g: Globals, settings: "UiSettings") -> int:
    """Ask the user, and carry out the choice. Raises YakError."""
    from yak.tui import launch
    from yak.tui.screens.first_run import FirstRunApp

    launch.require_terminal()
    choice = FirstRunApp(g.bootstrap_servers, theme=settings.theme).run()
    if choice == "demo":
        from yak.tui.demo.show import run_demo

        return run_demo(settings, keep=False, note=g.out.note)
    if choice == "up":
        return _up(g, settings)
    if choice == "add":
        return _add(g, settings)
    return 0


def _up(g: Globals, settings: "UiSettings") -> int:
    from yak.commands.local_cluster import bootstrap_servers, data_dir_flag
    from yak.local.cluster import LocalCluster, UpSettings
    from yak.tui import launch

    directory = str(g.settings.value("data_dir"))
    g.out.note("starting three brokers ...")
    LocalCluster(directory).up(UpSettings(brokers=3))
    servers = str(bootstrap_servers(g.settings).value)
    code = launch.run_app(launch.live_source(servers, settings, data_dirs=(directory,)), settings)
    g.out.note(f"the cluster stays; yak down{data_dir_flag(directory)} stops it")
    return code


def _add(g: Globals, settings: "UiSettings") -> int:
    from yak.client.addresses import parse_addresses
    from yak.client.contexts import add_context
    from yak.tui import launch

    name = typer.prompt("Name of the context")
    try:
        servers = parse_addresses(typer.prompt("Its brokers, HOST:PORT with commas"))
    except ValueError as error:
        raise UsageError("bad-address", f"these are no addresses: {error}", try_=("kafka.example:9092",)) from None
    add_context(g.settings.config_file, name, {"bootstrap_servers": servers}, use=True)
    return launch.run_app(launch.live_source(servers, settings, title=name), settings)


def check_web(web: bool, *, plain: bool, **given: object) -> None:
    """Refuse options without effect. Raises UsageError (`usage`)."""
    idle = [name for name, value in given.items() if value is not None]
    if idle and not web:
        raise UsageError("usage", f"--{idle[0]} needs --web", why="it is about browsers", try_=("yak ui --web",))
    if web and plain:
        raise UsageError("usage", "--plain and --web exclude each other", why="one is for pipes, one for browsers")


def run_web(g: Globals, server: ServerOptions, argv: list[str], *, demo: bool, keep: bool) -> int:
    """Serve until Ctrl+C; `argv` are the arguments of `yak ui` in a tab. Raises UsageError, see `yak.tui.web.server.serve`."""
    from yak.tui.web.launch import run
    from yak.tui.web.options import HOST, TOKEN_VARIABLE, WebOptions

    options = WebOptions(
        host=HOST if server.host is None else server.host,
        port=server.port,
        token=server.token if server.token is not None else os.environ.get(TOKEN_VARIABLE) or None,
        readonly=g.readonly,
        certificate=server.certificate,
    )
    if not demo:
        _ = g.bootstrap_servers  # report an invalid address here, not in each tab
    run(options, argv, say=g.out.note, warn=g.out.warn, demo=demo, keep=keep)
    return 0


@command(
    examples=(
        "yak ui",
        "yak ui --demo",
        "yak ui messages orders",
        "yak ui --context staging --readonly",
        "yak ui --web --port 8090",
    )
)
def ui(
    g: Globals,
    screen: Annotated[
        str | None, argument("SCREEN", "First screen: topics, messages, groups, ...", show_default=False)
    ] = None,
    what: Annotated[str | None, argument("WHAT", "Open this topic or group.", show_default=False)] = None,
    demo: bool = flag("--demo", "Start a demo cluster under load.", START, default=False),
    keep: bool = flag("--keep", "With --demo: leave the cluster running.", START, default=False),
    *,
    options: ScreenOptions,
    plain: bool = flag(
        "--plain", "A line for each change until Ctrl+C, for screen readers and pipes.", OUTPUT, default=False
    ),
    self_test: bool = flag("--self-test", "Test all screens without a terminal, and exit.", WHAT, default=False),
    web: bool = flag("--web", "Serve the UI to browsers.", _WEB, default=False),
    server: ServerOptions,
) -> int | None:
    """Monitor and test a cluster in a terminal or browser."""
    require_extra("web" if web else "ui")
    from yak.tui import launch

    if self_test:
        return launch.self_test(print)
    check_web(web, plain=plain, **asdict(server))
    if keep and not demo:
        raise UsageError(
            "usage", "--keep goes with --demo", why="only the demo ends its cluster", try_=("yak ui --demo --keep",)
        )
    settings = _settings(g, screen, what, options)
    if options.no_motion:
        os.environ["TEXTUAL_ANIMATIONS"] = "none"
    if web:
        opened = [each for each in (screen, what) if each is not None]
        argv = [*as_arguments(g.flags), *as_arguments(options), "--", *opened]
        return run_web(g, server, argv, demo=demo, keep=keep)
    if demo:
        from yak.tui.demo.show import run_demo

        write = partial(print, flush=True) if plain else None
        return run_demo(settings, keep=keep, note=g.out.note, write=write, require_reader=g.out.require_reader)
    if not plain and is_first_run(g, settings):
        return first_run(g, settings)
    source = _source(g, settings, options.data_dir)
    if plain:
        with suppress(KeyboardInterrupt):
            launch.run_plain(source, settings, lambda line: print(one_line(line), flush=True), g.out.require_reader)
        return 0
    return launch.run_app(source, settings, lambda name: _other(g, settings, name))


def require_extra(extra: str) -> None:
    """Raise UsageError (`ui-not-installed`) if this Python lacks a package of the extra."""
    if missing := [name for name in _EXTRAS[extra] if find_spec(name) is None]:
        raise UsageError(
            "ui-not-installed",
            "the terminal UI is not installed",
            why=f"this Python has no {', '.join(missing)}",
            try_=(f"pip install 'yak-broker[{extra}]'",),
        )


def _settings(g: Globals, screen: str | None, what: str | None, options: ScreenOptions) -> "UiSettings":
    """The UI's settings from options, variables and files. Raises UsageError."""
    from yak.client.contexts import KEYS, read_toml
    from yak.tui.keys import SCREENS, check_keymap
    from yak.tui.launch import contexts_of
    from yak.tui.settings import PUBLIC, UiSettings
    from yak.tui.themes import NAMES

    chosen = str(g.settings.get("theme", flag=options.theme).value)
    if chosen not in NAMES:
        raise UsageError("unknown-theme", f'there is no theme "{chosen}"', why=f"there are {', '.join(NAMES)}")
    start = next((each for each in SCREENS if screen in (each.name, *each.aliases)), None)
    if screen is not None and start is None:
        raise UsageError(
            "unknown-screen",
            f'there is no screen "{screen}"',
            why=f"there are {', '.join(each.name for each in SCREENS)}",
            try_=("yak ui topics",),
        )
    keymap = read_toml(g.settings.config_file).get(KEYS, {})
    if not isinstance(keymap, dict) or not all(isinstance(each, str) for each in keymap.values()):
        raise UsageError(
            "config-file", f"[keys] in {g.settings.config_file} is not as it must be", why='"action" = "key"'
        )
    context, contexts = g.settings.context_name() or "", contexts_of(g.settings.contexts)
    if is_public := PUBLIC in os.environ:
        contexts = {name: values for name, values in contexts.items() if name == context}
    return UiSettings(
        is_readonly=g.readonly,
        is_public=is_public,
        is_ascii=options.ascii or bool(g.settings.value("ascii")),
        is_production=bool(g.settings.value("production")),
        theme=chosen,
        zone="utc" if str(g.settings.value("tz")).upper() == "UTC" else "local",
        fps=options.fps,
        keymap=check_keymap(keymap),
        contexts=contexts,
        context=context,
        config_file=g.settings.config_file,
        accent=str(g.settings.value("accent") or ""),
        token=g.http_token(),
        start=start.name if start else "dashboard",
        start_with=start.opens(str(screen), what) if start else what,
    )


def _source(g: Globals, settings: "UiSettings", data_dir: str | None) -> "ClusterSource":
    from yak.tui.launch import live_source

    directory = str(g.settings.value("data_dir", flag=data_dir))
    return live_source(g.bootstrap_servers, settings, data_dirs=(directory,))


def _other(g: Globals, settings: "UiSettings", name: str) -> "ClusterSource":
    from yak.client.contexts import read_contexts, unknown_context
    from yak.tui.launch import live_source

    contexts = read_contexts(g.settings.config_file)  # read again: a context may have been added
    if name not in contexts:
        raise unknown_context(name, sorted(contexts), g.settings.config_file)
    context = contexts[name]
    _require_same_login(g, name)
    directory = str(context.get("data_dir") or g.settings.value("data_dir"))
    token = str(context.get("http_token") or "")
    settings = replace(settings, context=name, token="")  # never send one cluster's token to another cluster
    return live_source(str(context["bootstrap_servers"]), settings, title=name, token=token, data_dirs=(directory,))


def _require_same_login(g: Globals, name: str) -> None:
    """Raise UsageError (`other-login`) unless connections to the context have the TLS settings and the login in use.

    A process has one login: that of this cluster must not be sent to another one.
    """
    if _security_and_login(
        Globals.resolve(replace(g.flags, context=name, bootstrap_server=None))
    ) != _security_and_login(g):
        raise UsageError(
            "other-login",
            f"context {name} has another login, or other TLS settings",
            why="the login of this cluster is not sent to another one",
            try_=(f"yak ui --context {name}",),
        )


def _security_and_login(g: Globals) -> object:
    _, security, login = g.connection()
    token_endpoint = login.tokens.__reduce__() if login is not None and login.tokens is not None else None
    return security, login and (login.mechanism, login.user, login.password, token_endpoint)
