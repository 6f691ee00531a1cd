"""One cluster of three brokers behind fault proxies for all tests of a file; each test finds it whole, and leaves it so.

A cluster for all files would be idle for the rest of a run, in each worker: 3 % of a core.
"""

import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from support.fault_cluster import FaultCluster


@pytest.fixture(scope="module")
def whole_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultCluster]:
    if not sys.platform.startswith("linux"):
        pytest.skip("the fault proxy finds out who calls from /proc, which only Linux has")
    with closing(FaultCluster(tmp_path_factory.mktemp("faults") / "cluster")) as made:
        made.start()
        yield made


@pytest.fixture
def cluster(whole_cluster: FaultCluster, unique_topic: str) -> Iterator[FaultCluster]:
    """The cluster, whole; the damage of a test is repaired afterwards, and its topic is deleted."""
    whole_cluster.mend()
    yield whole_cluster
    whole_cluster.mend()
    for topic in list(whole_cluster.image.topics):
        if topic.startswith(unique_topic):
            whole_cluster.delete(topic)
    whole_cluster.assert_no_bugs()
