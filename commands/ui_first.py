"""`yak ui` without a cluster: asks how to get one."""

from typing import TYPE_CHECKING

import typer

from yak.commands.options import Globals
from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.tui.settings import UiSettings

_PATIENCE_S = 1.0


def is_first_run(g: Globals, settings: "UiSettings") -> bool:
    """Whether no cluster is configured, and none answers at the default address."""
    from yak.client.reach import probe
    from yak.commands.local_cluster import bootstrap_servers

    if settings.contexts or bootstrap_servers(g.settings).origin != "default":
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
