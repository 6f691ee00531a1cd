"""What several tests of local clusters do with one."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from yak.local import ports
from yak.local.cluster import LocalCluster
from yak.local.signal_event import SignalEvent
from yak.local.supervise import LogFollower, supervise


def said_to(cluster: LocalCluster, node_id: int) -> str:
    """The arguments that a stand-in was started with, as it logs them."""
    return Path(cluster.log_path(f"node-{node_id}")).read_text()


def free_row(count: int) -> int:
    """The first of so many ports that are free side by side, below those that the system gives."""
    for base in range(20_000 + os.getpid() % 5_000, 32_000, 10):
        if all(ports.is_free("127.0.0.1", base + index) for index in range(count)):
            return base
    raise AssertionError("no free ports")


def watch(
    cluster: Any, stop_requested: SignalEvent, follower: LogFollower | None = None, **call_backs: Callable[..., object]
) -> bool:
    """`supervise` with these call-backs."""
    every = dict.fromkeys(("on_line", "on_change", "on_redis_gone", "on_restart"), lambda *_: None) | call_backs
    return supervise(cluster, follower or LogFollower(cluster.log_paths()), stop_requested, **every)  # type: ignore[arg-type]
