"""Kafka clusters for tests: a pytest plugin (`yak.testing.plugin`), and `run_cluster` for everybody else.

plugin          what pytest sees: fixtures, options, the marker, the brokers' logs in a failing test's report
asked_for       which cluster and topic a test asks for
session         the clusters of one run: lent to one test at a time, looked over before the next one
cluster         one cluster, as a test holds it
shape           what a cluster is made of: clusters of one shape can stand in for each other
checking        what each broker says of the cluster, and whether they agree
broker_logs     what the brokers printed since a test began
workspace       the folder and the metadata store under all of it
guardian        a process that cleans up when the test run was killed

pytest imports the plugin at every start where YAK is installed, so nothing of the rest is loaded before a test asks for a
cluster, and nothing but `plugin` and `asked_for` imports pytest.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yak.testing.cluster import Cluster, Node
    from yak.testing.session import run_cluster

__all__ = ["Cluster", "Node", "run_cluster"]

_HOMES = {"Cluster": "yak.testing.cluster", "Node": "yak.testing.cluster", "run_cluster": "yak.testing.session"}


def __getattr__(name: str) -> Any:
    """Import what is public when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found
