"""The cluster that `yak up` keeps on this machine, for commands that are about it or know more because of it."""

import os
import shlex
from typing import TYPE_CHECKING

from yak.commands.settings import Resolved, Settings

if TYPE_CHECKING:
    from yak.commands.options import Globals
    from yak.local.status import ClusterStatus

_UP_IN = "yak up in "


def bootstrap_servers(settings: Settings) -> Resolved:
    """The brokers to ask first: those that were named, else those of `yak up` in our directory that run now.

    So every command finds a cluster that took other ports, and one whose first broker is dead. Where nothing runs, it is
    the default.
    """
    from yak.errors import YakError
    from yak.local.cluster import LocalCluster

    found = settings.get("bootstrap_servers")
    if found.origin != "default":
        return found
    data_dir = str(settings.value("data_dir"))
    try:
        brokers = LocalCluster(data_dir).status().brokers
    except YakError as error:
        if error.code == "cluster-state-foreign":
            settings.warnings.append(f"{error.message}: {error.why}")
        return found
    running = [broker.address for broker in brokers if broker.state in ("running", "starting")]
    return Resolved(found.name, ",".join(running), f"{_UP_IN}{data_dir}") if running else found


def is_from_directory(settings: Settings, found: Resolved) -> bool:
    """Whether a file in the working directory gave this address: ./yak.toml, or what `yak up` keeps there."""
    return settings.is_from_directory(found) or found.origin.startswith(_UP_IN)


def find_local(g: "Globals", data_dir: str | None) -> "ClusterStatus | None":
    """The local cluster that is meant: that of --data-dir, or that of the settings when no brokers were named.

    None when there is none, or when the brokers to ask were named and are not its own.
    """
    from yak.local.cluster import LocalCluster

    status = LocalCluster(str(g.settings.value("data_dir", flag=data_dir))).status()
    if not status.brokers:
        return None
    if data_dir is not None or g.settings.get("bootstrap_servers").origin == "default":
        return status
    own = {broker.address for broker in status.brokers}
    return status if own & set(g.bootstrap_servers.split(",")) else None


def known_redis(g: "Globals", flag: str | None, local: "ClusterStatus | None") -> str | None:
    """The metadata store that was named, else the local cluster's; None when nobody said."""
    found = g.settings.get("redis_url", flag=flag)
    if found.origin != "default":
        return str(found.value)
    return local.redis_url if local is not None else None


def data_dir_flag(data_dir: str) -> str:
    """What must be added to `yak up ...` for this directory: nothing for the usual one."""
    return "" if data_dir == os.path.abspath("yak-data") else f" --data-dir {shlex.quote(data_dir)}"
