"""Kafka clusters for tests: a pytest plugin (`yak.testing.plugin`), and `run_cluster` for other uses.

plugin          fixtures, options, the marker, the brokers' logs in a failing test's report
fixture_options the cluster and topic that a test requests
running_cluster `run_cluster`: a cluster for a `with` or `async with` block
session         the clusters of one run: their folder and metadata store, lent to one test at a time
cluster         a test's cluster, each broker's view of it, and the brokers' log output since a test began
faults          the faults of a test's cluster
shape           size and configs of a cluster: clusters of one shape are interchangeable; a broker's state
remote          a process that lends clusters to a test run that imports nothing of YAK (pytest-yak)

pytest imports the plugin at every start where YAK is installed. So the other modules are loaded only when a test needs a
cluster, and only `plugin` and `fixture_options` import pytest.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yak.testing.cluster import Cluster
    from yak.testing.running_cluster import run_cluster
    from yak.testing.shape import Node

__all__ = ["Cluster", "Node", "run_cluster"]

_HOMES = {"Cluster": "yak.testing.cluster", "Node": "yak.testing.shape", "run_cluster": "yak.testing.running_cluster"}


def __getattr__(name: str) -> Any:
    """Import a public name on its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found
