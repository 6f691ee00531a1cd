"""The pytest plugin: fixtures, options, the marker, and the brokers' logs in the report of a failed test.

pytest imports this file at every start, so it imports other YAK modules only when they are used.
"""

import contextlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from yak.testing.cluster import Cluster
    from yak.testing.fixture_options import WantedCluster
    from yak.testing.session import Session

_MARKER = (
    "yak(brokers=1, configs={}, fresh=False, as_kafka=None, partitions=1, replication_factor=None, topic_configs={}): "
    "the Kafka cluster and topic of a test (yak_cluster, yak_topic)"
)
_NAMES = ("yak_brokers", "yak_configs", "yak_as_kafka", "yak_fresh", "yak_log_lines")
_CLUSTER: "pytest.StashKey[Cluster]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options, each also for the ini file."""
    group = parser.getgroup("yak", "Kafka clusters (yak.testing)")
    group.addoption("--yak-brokers", dest="yak_brokers", metavar="N", help="brokers of a test's cluster [1]")
    group.addoption(
        "--yak-config",
        dest="yak_configs",
        action="append",
        metavar="NAME=VALUE",
        help="a broker config, by Kafka's name; may be repeated",
    )
    group.addoption(
        "--yak-as-kafka",
        dest="yak_as_kafka",
        metavar="RELEASE",
        help="the APIs and versions of this Kafka release, such as 2.8",
    )
    group.addoption(
        "--yak-fresh", dest="yak_fresh", action="store_true", default=None, help="a new cluster for each test"
    )
    group.addoption(
        "--yak-log-lines",
        dest="yak_log_lines",
        metavar="N",
        help="lines of each broker's log that a failing test shows; 0 for none [40]",
    )
    parser.addini("yak_brokers", "brokers of a test's cluster", default="")
    parser.addini("yak_configs", "broker configs, a NAME=VALUE on each line", type="linelist", default=[])
    parser.addini("yak_as_kafka", "the APIs and versions of this Kafka release", default="")
    parser.addini("yak_fresh", "a new cluster for each test", type="bool", default=False)
    parser.addini("yak_log_lines", "lines of each broker's log that a failing test shows", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse invalid options before any test runs."""
    config.addinivalue_line("markers", _MARKER)
    if any(config.getoption(name) is not None or config.getini(name) for name in _NAMES):
        from yak.testing.fixture_options import Defaults

        Defaults.of(config)


@pytest.fixture(scope="session")
def _yak_session() -> Iterator["Session"]:
    """All clusters of this process."""
    from yak.testing.session import Session

    session = Session()
    try:
        yield session
    finally:
        session.close()


@pytest.fixture
def yak_cluster(request: pytest.FixtureRequest, _yak_session: "Session") -> Iterator["Cluster"]:
    """A Kafka cluster without topics: real brokers on 127.0.0.1. `yak_cluster.bootstrap` is its address."""
    from yak.testing.fixture_options import wanted_cluster

    wanted = wanted_cluster(request)
    cluster = _lend(_yak_session, wanted)
    request.node.stash[_CLUSTER] = cluster
    try:
        yield cluster
    finally:
        _yak_session.give_back(cluster, fresh=wanted.fresh)


@pytest.fixture(scope="session")
def yak_session_cluster(request: pytest.FixtureRequest, _yak_session: "Session") -> Iterator["Cluster"]:
    """A separate cluster for the whole session, configured by the options, for one-time setup. It is never reset."""
    from yak.testing.fixture_options import wanted_cluster

    cluster = _lend(_yak_session, wanted_cluster(request, fresh=True))
    request.session.stash[_CLUSTER] = cluster
    try:
        yield cluster
    finally:
        _yak_session.give_back(cluster, fresh=True)


@pytest.fixture
def yak_bootstrap(yak_cluster: "Cluster") -> str:
    """`host:port,host:port`: `bootstrap.servers` of any Kafka client."""
    return yak_cluster.bootstrap


@pytest.fixture
def yak_topic(request: pytest.FixtureRequest, yak_cluster: "Cluster") -> str:
    """The name of a new topic in `yak_cluster`: one partition, or as the marker says."""
    from yak.testing.fixture_options import topic_name, wanted_topic

    wanted, name = wanted_topic(request), topic_name(request.node)
    with _without_traceback():
        yak_cluster.create_topic(name, wanted.partitions, wanted.replication_factor, wanted.configs)
    return name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the brokers' output since the test began to the report of a failed test."""
    report = yield
    clusters = [("yak", item.stash[_CLUSTER])] if _CLUSTER in item.stash else []
    if "yak_session_cluster" in getattr(item, "fixturenames", ()) and _CLUSTER in item.session.stash:
        clusters.append(("yak session", item.session.stash[_CLUSTER]))
    if report.failed and clusters:
        from yak.testing.fixture_options import Defaults

        lines_max = Defaults.of(item.config).log_lines
        for name, cluster in clusters if lines_max else ():
            for node_id, text in cluster.log_tails(lines_max).items():
                report.sections.append((f"{name} node-{node_id} log", text or "(nothing since the test began)"))
    if report.when == "teardown" and _CLUSTER in item.session.stash:
        item.session.stash[_CLUSTER].mark_logs()
    return report


def _lend(session: "Session", wanted: "WantedCluster") -> "Cluster":
    with _without_traceback():
        return session.lend(wanted.shape, fresh=wanted.fresh)


@contextlib.contextmanager
def _without_traceback() -> Iterator[None]:
    """Fail the test with the three lines that `yak` prints, without a traceback, when the cluster is unavailable."""
    from yak.errors import YakError

    try:
        yield
    except YakError as error:
        lines = [f"error[{error.code}]: {error.message}", *getattr(error, "__notes__", ())]
        raise pytest.fail.Exception("\n".join(lines), pytrace=False) from None
