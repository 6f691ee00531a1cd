"""Controls the processes of a `yak up` cluster on this machine. Everything blocks: call it in a thread."""

import os
import shlex
from collections.abc import Iterable
from typing import Final

from yak.errors import YakError
from yak.local.cluster import LocalCluster

USUAL_DIR: Final = "yak-data"
_SAME_HOST: Final = ("localhost", "127.0.0.1", "0.0.0.0", "[::1]", "::1", "[::]", "::")  # noqa: S104 - compared, not bound


class LocalClusterControl(LocalCluster):
    """The brokers and the Redis server of one data directory, and the commands that do the same."""

    def command(self, text: str) -> str:
        """`yak WORDS` with the options that select this cluster."""
        is_usual = self.data_dir == os.path.realpath(USUAL_DIR)
        return f"yak {text}" + ("" if is_usual else f" --data-dir {shlex.quote(self.data_dir)}")


def find_local(bootstrap: str, data_dirs: Iterable[str] = (USUAL_DIR,)) -> LocalClusterControl | None:
    """Control of the first of these directories whose running brokers have these addresses; None if there is none."""
    wanted = {_plain(address) for address in bootstrap.split(",") if address}
    for data_dir in data_dirs:
        control = LocalClusterControl(data_dir)
        try:
            brokers = control.status().brokers
        except YakError:
            continue  # not ours: the file was not written by this version of yak
        alive = {_plain(each.address) for each in brokers if each.pid is not None}
        if wanted & alive:
            return control
    return None


def _plain(address: str) -> str:
    """An address with one name for this machine."""
    host, _, port = address.strip().rpartition(":")
    return f"{'here' if host in _SAME_HOST else host}:{port}"
