"""pytest-yak from its wheel, in a pytest of its own; Python on the sources stands in for the executable."""

import sys
from pathlib import Path

import psutil
import pytest

from tests.programs import load_program

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.exec_yak  # no Python that has imported YAK runs these tests

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def examples(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder where pytest finds pytest-yak's wheel, and a yak_broker_bin that names this Python."""
    built = load_program(ROOT / "packaging" / "wheels.py")
    wheel = built.pytest_wheel(built.project_version()).write(pytester.mkdir("wheel"))
    site = pytester.mkdir("site")
    (site / "yak_broker_bin.py").write_text(f"def find_yak_bin():\n    return {sys.executable!r}\n")
    monkeypatch.setenv("PYTHONPATH", f"{wheel}:{site}")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("t")))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    return pytester


def run(examples: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run the tests to their end; no file and no process may be left then."""
    result = examples.runpytest_subprocess("-p", "pytest_yak.plugin", *arguments, timeout=100)
    folder = examples.path / "t"
    assert list(folder.iterdir()) == []
    assert [each for each in psutil.process_iter(["cmdline"]) if str(folder) in str(each.info["cmdline"])] == []
    return result


def test_call_after_one_that_a_timeout_ended_gets_its_own_answer(examples: pytest.Pytester) -> None:
    examples.makepyfile(
        test_timeout="""
        import signal

        import pytest

        def test_timeout(yak_cluster):
            def ring(*_):
                raise TimeoutError

            yak_cluster.create_topic("a")
            signal.signal(signal.SIGALRM, ring)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(TimeoutError):
                yak_cluster.leader_of("missing", timeout_s=1.0)
            assert yak_cluster.isr("a") == (1,)

        def test_next(yak_cluster):
            assert yak_cluster.create_topic("b") == "b"
        """
    )
    run(examples).assert_outcomes(passed=2)


def test_failover_in_a_test_loses_no_record_and_the_next_test_gets_a_new_cluster(examples: pytest.Pytester) -> None:
    examples.makepyfile(
        test_orders="""
        import sys
        import pytest
        from confluent_kafka import Consumer, Producer, TopicPartition

        pytestmark = pytest.mark.yak(brokers=3, topic_configs={"min.insync.replicas": 2})
        addresses = []

        def send(cluster, topic, value):
            producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
            producer.produce(topic, value)
            assert producer.flush(30) == 0

        def test_leader_dies(yak_cluster, yak_topic):
            assert "yak" not in sys.modules
            addresses.append(yak_cluster.bootstrap)
            send(yak_cluster, yak_topic, b"before")
            leader = yak_cluster.leader_of(yak_topic)
            yak_cluster.kill(leader)
            assert yak_cluster.broker(leader).state == "dead"
            assert yak_cluster.leader_of(yak_topic) != leader
            send(yak_cluster, yak_topic, b"after")
            yak_cluster.restart(leader)
            yak_cluster.wait_until_healthy()
            assert yak_cluster.isr(yak_topic) == (1, 2, 3)
            consumer = Consumer({"bootstrap.servers": yak_cluster.bootstrap, "group.id": yak_topic})
            consumer.assign([TopicPartition(yak_topic, 0, 0)])
            assert [each.value() for each in consumer.consume(2, timeout=30)] == [b"before", b"after"]
            consumer.close()

        def test_next_one(yak_cluster):
            assert yak_cluster.bootstrap != addresses[0]
            assert [each.state for each in yak_cluster.brokers] == ["running"] * 3
        """
    )
    run(examples).assert_outcomes(passed=2)


def test_faults_affect_a_client_and_are_removed_before_the_next_test(examples: pytest.Pytester) -> None:
    examples.makepyfile(
        test_faults="""
        import sys
        import pytest
        from confluent_kafka import Producer
        from pytest_yak.errors import YakError

        def send(cluster, topic):
            producer = Producer({"bootstrap.servers": cluster.bootstrap})
            producer.produce(topic, b"a")
            assert producer.flush(30) == 0

        def test_error_is_injected(yak_cluster, yak_topic):
            fault = yak_cluster.faults.inject_error("Produce", "NOT_LEADER_OR_FOLLOWER", times=1, topic=yak_topic)
            send(yak_cluster, yak_topic)
            assert (fault.calls, fault.hits) == (2, 1)
            with pytest.raises(YakError, match="no api") as caught:
                yak_cluster.faults.disconnect_on("Prodce")
            assert caught.value.__notes__[:1] == ["  why:  the closest name is Produce"]
            assert "yak" not in sys.modules

        def test_next_one_has_no_faults(yak_cluster):
            assert yak_cluster.faults.list() == []
        """
    )
    run(examples).assert_outcomes(passed=2)


def test_failed_test_shows_the_brokers_log_and_a_bad_config_its_reason(examples: pytest.Pytester) -> None:
    examples.makepyfile(
        test_wrong="""
        import pytest

        def test_fails(yak_cluster, yak_topic):
            with pytest.raises(Exception, match="no node 7"):
                yak_cluster.broker(7)
            assert False

        @pytest.mark.yak(configs={"num.partitons": 3})
        def test_bad_config(yak_cluster):
            pass
        """
    )
    result = run(examples)
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(["error[[]bad-config]: There is no broker config 'num.partitons'.", "*yak node-1 log*"])
