"""A clean shutdown mark promises that a power loss takes nothing from the logs beside it: the next start reads none."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from yak.sim.deliveries import Violation
from yak.sim.disk import SimDisk
from yak.storage.names import CLEAN_SHUTDOWN, DELETED_SUFFIX, parse_partition_folder


def check_clean_marks(disk: SimDisk, directories: Sequence[str]) -> None:
    """After the stop of a broker. Raises Violation."""
    for directory in directories:
        if not disk.exists(f"{directory}/{CLEAN_SHUTDOWN}"):
            continue
        for path in disk.contents():
            if path.endswith(DELETED_SUFFIX):
                # the log start offset, which is durable, removes it again if the power loss brings it back
                continue
            parent, _, folder = posixpath.dirname(path).rpartition("/")
            if parent == directory and parse_partition_folder(folder) is not None and not disk.is_durable(path):
                raise Violation(f"{directory} has a clean shutdown mark, and {path} is not durable")
