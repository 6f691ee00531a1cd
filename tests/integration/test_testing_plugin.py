"""The pytest plugin as its users meet it: example tests in a pytest of their own, and the examples of docs/testing.md."""

import re
import signal
import subprocess
import sys
import time
import tomllib
from importlib import import_module
from pathlib import Path

import psutil
import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
PYTHON_BLOCK = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INI_BLOCK = re.compile(r"^```toml\n# pyproject.toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _hear_interrupts() -> None:
    """A shell without job control starts what is in the background, as a whole run of the tests, deaf to SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Examples:
    """A folder of example tests, and pytest runs in it with nothing but the plugin. TMPDIR is the folder's own."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pytester = pytester
        self.tmp = pytester.mkdir("t")
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        monkeypatch.setenv("TMPDIR", str(self.tmp))
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)

    def write(self, **files: str) -> None:
        """Test files by name."""
        self._pytester.makepyfile(**files)

    def run(self, *arguments: str) -> pytest.RunResult:
        """Run them to their end; nothing may be left then."""
        result = self._pytester.runpytest_subprocess("-p", "yak.testing.plugin", *arguments, timeout=100)
        assert self.left_behind() == []
        return result

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start pytest and return when a test has printed a line, `ready`."""
        command = [sys.executable, "-m", "pytest", "-s", "-p", "yak.testing.plugin", *arguments]
        run = subprocess.Popen(
            command,
            cwd=self._pytester.path,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=_hear_interrupts,  # noqa: PLW1509
        )
        assert run.stdout is not None
        for line in run.stdout:
            if "ready" in line:
                return run
        raise AssertionError("no test began")

    def left_behind(self) -> list[str]:
        """Files in TMPDIR, and processes that have it in their arguments or work in it."""
        found = [str(path) for path in self.tmp.iterdir()]
        for process in psutil.process_iter():
            try:
                words = [process.cwd(), *process.cmdline()]
            except (psutil.Error, OSError):
                continue
            if any(word.startswith(str(self.tmp)) for word in words):
                found.append(f"{process.pid}: {words}")
        return found

    def wait_until_nothing_is_left(self) -> None:
        """For runs that could not clean up by themselves."""
        deadline = time.monotonic() + 20
        while (left := self.left_behind()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left == []


@pytest.fixture
def examples(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Examples:
    return Examples(pytester, monkeypatch)


def test_every_example_of_the_documentation_passes(examples, pytester):
    text = (ROOT / "docs" / "testing.md").read_text("utf-8")
    files = dict(PYTHON_BLOCK.findall(text))
    assert text.count("```python") == len(files) == 7
    for name, source in files.items():
        (pytester.path / name).write_text(source)
    (ini,) = INI_BLOCK.findall(text)
    assert set(tomllib.loads(ini)["tool"]["pytest"]["ini_options"]) == {
        "yak_brokers",
        "yak_configs",
        "yak_fresh",
        "yak_log_lines",
    }
    result = examples.run("-v")
    result.assert_outcomes(passed=16)


def test_documentation_names_every_option_and_every_argument_of_the_marker(examples):
    text = (ROOT / "docs" / "testing.md").read_text("utf-8")
    told = examples.run("--help", "--markers").outlines + examples.run("--markers").outlines
    options = set(re.findall(r"--yak-[a-z-]+", "\n".join(told)))
    (marker,) = {line for line in told if "pytest.mark.yak(" in line}
    assert options == set(re.findall(r"--yak-[a-z-]+", text))
    assert len(options) == 5
    for word in re.findall(r"(\w+)=", marker.partition("):")[0]):
        assert f"`{word}`" in text


def test_the_entry_point_leads_to_the_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"yak": "yak.testing.plugin"}
    assert hasattr(import_module("yak.testing.plugin"), "yak_cluster")
    assert not any("pytest" in each for each in project["dependencies"])


def test_tests_take_turns_with_a_cluster_that_is_empty_and_whole(examples):
    examples.write(
        test_turns="""
        import pytest
        from confluent_kafka.admin import AdminClient

        seen = []

        def topics(cluster):
            found = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics
            return [name for name in found if not name.startswith("__")]

        @pytest.mark.parametrize("turn", range(3))
        def test_turn(yak_cluster, yak_topic, turn):
            assert topics(yak_cluster) == [yak_topic]
            assert yak_topic.startswith("test-turn-%d" % turn)
            yak_cluster.create_topic("left-over", partitions=3)
            seen.append((yak_cluster.bootstrap, yak_topic))
            if turn:
                assert seen[0][0] == yak_cluster.bootstrap
                assert seen[0][1] != yak_topic

        def test_broker_config_is_changed(yak_cluster):
            assert yak_cluster.bootstrap == seen[0][0]
            from yak.client.admin import Admin
            Admin(yak_cluster.bootstrap).alter_configs("broker", "1", {"log.retention.ms": "1000"})

        def test_does_not_disturb_the_next(yak_cluster):
            assert yak_cluster.bootstrap != seen[0][0]

        @pytest.mark.yak(fresh=True)
        def test_fresh(yak_cluster, yak_session_cluster, yak_bootstrap):
            assert yak_cluster.bootstrap == yak_bootstrap != yak_session_cluster.bootstrap

        def test_session(yak_session_cluster):
            yak_session_cluster.create_topic("stays")

        def test_session_again(yak_session_cluster, yak_cluster):
            assert topics(yak_session_cluster) == ["stays"]
            assert topics(yak_cluster) == []
        """
    )
    examples.run().assert_outcomes(passed=8)


def test_quotas_users_acls_and_group_configs_of_a_test_are_not_those_of_the_next(examples):
    examples.write(
        test_clients="""
        import pytest
        from yak.acls.bindings import AclBinding, AccessControlEntry, Operation, PatternType, Permission
        from yak.acls.bindings import ResourcePattern, ResourceType
        from yak.acls.filters import AclFilter
        from yak.client.acls import create_acls, describe_acls
        from yak.client.admin import Admin
        from yak.client.quotas import alter_quotas, describe_quotas
        from yak.client.raw_connection import call_once
        from yak.client.users import set_password, user_rows

        seen = []
        GROUP = 32

        def test_first(yak_cluster):
            seen.append(yak_cluster.bootstrap)

        def test_quota(yak_cluster):
            assert yak_cluster.bootstrap == seen[-1]
            rate = {"producer_byte_rate": 1.0}
            alter_quotas(yak_cluster.bootstrap, (("client-id", None),), rate, validate_only=False, timeout_s=5)

        def test_user(yak_cluster):
            assert describe_quotas(yak_cluster.bootstrap, None, timeout_s=5) == []
            set_password(Admin(yak_cluster.bootstrap), "bob", "secret", ["SCRAM-SHA-256"], 4096)

        def test_group_config(yak_cluster):
            assert user_rows(Admin(yak_cluster.bootstrap)) == []
            configs = [{"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "50000"}]
            resource = {"resource_type": GROUP, "resource_name": "g", "configs": configs}
            asked = {"resources": [resource], "validate_only": False}
            (answer,) = call_once(yak_cluster.bootstrap, (44, 1), asked, "", 5).responses
            assert not answer.error_code

        def test_no_group_config(yak_cluster):
            asked = {"resource_types": [GROUP]}
            assert call_once(yak_cluster.bootstrap, (74, 1), asked, "", 5).config_resources == ()

        SECURED = pytest.mark.yak(
            configs={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
            }
        )

        @SECURED
        def test_acl(yak_cluster):
            entry = AccessControlEntry("User:bob", "*", Operation.READ, Permission.DENY)
            binding = AclBinding(ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL), entry)
            create_acls(yak_cluster.bootstrap, [binding], timeout_s=5)
            seen.append(yak_cluster.bootstrap)

        @SECURED
        def test_no_acl(yak_cluster):
            assert describe_acls(yak_cluster.bootstrap, AclFilter(), timeout_s=5) == []
            seen.append(yak_cluster.bootstrap)

        @SECURED
        def test_an_unchanged_cluster_is_used_again(yak_cluster):
            assert yak_cluster.bootstrap == seen[-1]

        OLD = pytest.mark.yak(as_kafka="2.0")

        @OLD
        def test_old(yak_cluster):
            seen.append(yak_cluster.bootstrap)

        @OLD
        def test_old_again(yak_cluster):
            assert yak_cluster.bootstrap == seen[-1]
        """
    )
    examples.run().assert_outcomes(passed=10)


def test_broker_faults_of_a_test_take_effect_and_are_undone_before_the_next_test(examples):
    examples.write(
        test_deeds="""
        import pytest
        from confluent_kafka import Producer
        from yak.errors import CheckFailed, WaitTimeout, UsageError

        pytestmark = pytest.mark.yak(brokers=3)

        def states(cluster):
            return [broker.state for broker in cluster.brokers]

        def test_a_paused_leader_is_replaced_and_comes_back(yak_cluster, yak_topic):
            leader = yak_cluster.leader_of(yak_topic)
            yak_cluster.pause(leader)
            assert yak_cluster.broker(leader).state == "paused"
            with pytest.raises(CheckFailed, match="node %d is paused" % leader):
                yak_cluster.wait_until_healthy()
            assert yak_cluster.leader_of(yak_topic) != leader
            assert leader not in yak_cluster.isr(yak_topic)
            yak_cluster.resume(leader)
            yak_cluster.wait_until_healthy()
            assert yak_cluster.isr(yak_topic) == (1, 2, 3)
            assert "broker-fenced" in "".join(map(yak_cluster.log, (1, 2, 3)))

        def test_left_in_pieces(yak_cluster, yak_topic):
            assert states(yak_cluster) == ["running"] * 3
            before = yak_cluster.broker(2)
            yak_cluster.restart(2)
            assert yak_cluster.broker(2).address == before.address
            assert yak_cluster.broker(2).pid != before.pid
            yak_cluster.kill(1)
            yak_cluster.pause(2)
            assert states(yak_cluster) == ["dead", "paused", "running"]
            assert yak_cluster.broker(1).pid is None

        def test_whole_again(yak_cluster, yak_topic):
            assert states(yak_cluster) == ["running"] * 3
            producer = Producer({"bootstrap.servers": yak_cluster.bootstrap, "acks": "all"})
            producer.produce(yak_topic, b"x")
            assert producer.flush(10) == 0

        @pytest.mark.yak(replication_factor=1)
        def test_partition_whose_only_replica_is_on_a_dead_broker_has_no_leader(yak_cluster, yak_topic):
            leader = yak_cluster.leader_of(yak_topic)
            yak_cluster.kill(leader)
            with pytest.raises(WaitTimeout, match="no broker was found to lead"):
                yak_cluster.leader_of(yak_topic, timeout_s=0.5)
            with pytest.raises(UsageError, match="no node 4"):
                yak_cluster.kill(4)
        """
    )
    examples.run().assert_outcomes(passed=4)


def test_a_failing_test_shows_what_the_brokers_printed_and_a_passing_one_does_not(examples):
    examples.write(
        test_failing="""
        import pytest

        def test_fails(yak_cluster):
            yak_cluster.create_topic("seen-in-the-log")
            assert False, "as planned"

        def test_passes(yak_cluster):
            yak_cluster.create_topic("never-shown")

        def test_needs_no_cluster():
            assert False

        @pytest.fixture
        def bad_end(yak_cluster):
            yield
            assert False

        @pytest.mark.yak(fresh=True)
        def test_fails_at_its_end(bad_end):
            pass
        """
    )
    result = examples.run()
    result.assert_outcomes(passed=2, failed=2, errors=1)
    text = "\n".join(result.outlines)
    assert text.count("yak node-1 log") == 2
    assert "seen-in-the-log" in text.partition("yak node-1 log")[2].partition("yak node-1 log")[0]
    assert "never-shown" not in text
    assert "yak node-1 log" not in "\n".join(examples.run("--yak-log-lines=0").outlines)


def test_a_failing_test_shows_the_log_of_the_session_cluster_since_it_began(examples):
    examples.write(
        test_failing="""
        import pytest

        @pytest.fixture(scope="module")
        def tables(yak_session_cluster):
            return yak_session_cluster.create_topic("before-the-tests")

        def test_fails(tables):
            assert False, "as planned"

        def test_fails_too(tables, yak_session_cluster):
            yak_session_cluster.create_topic("within-the-test")
            assert "before-the-tests" not in yak_session_cluster.log(1)
            assert False, "as planned"

        def test_uses_it_not():
            assert False
        """
    )
    result = examples.run()
    result.assert_outcomes(failed=3)
    _, first, second = "\n".join(result.outlines).split("yak session node-1 log")
    assert "before-the-tests" in first
    assert "within-the-test" in second
    assert "before-the-tests" not in second.partition("test_uses_it_not")[0].partition("within-the-test")[0]


def test_impossible_cluster_or_topic_is_reported_in_a_few_lines(examples):
    examples.write(
        test_wrong="""
        import pytest

        @pytest.mark.yak(configs={"no.such.config": 1})
        def test_config(yak_cluster):
            pass

        @pytest.mark.yak(brokrs=3)
        def test_unknown_marker_argument(yak_cluster):
            pass

        @pytest.mark.yak(brokers=0)
        def test_number(yak_cluster):
            pass

        @pytest.mark.yak(configs="a=b")
        def test_kind(yak_cluster):
            pass

        @pytest.mark.yak(replication_factor=2)
        def test_replicas(yak_topic):
            pass
        """
    )
    result = examples.run()
    result.assert_outcomes(errors=5)
    text = "\n".join(result.outlines)
    assert "Traceback" not in text
    assert "plugin.py" not in text
    assert "There is no broker config 'no.such.config'" in text
    assert "@pytest.mark.yak does not know brokrs; it takes brokers=" in text
    assert "brokers=0: a cluster has 1 to 32" in text
    assert "configs is a dict" in text
    assert "INVALID_REPLICATION_FACTOR" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--yak-brokers=many",), "'many' is not a number from 1 on"),
        (("--yak-brokers=99",), "a cluster has 1 to 32"),
        (("--yak-config=novalue",), "'novalue' is not NAME=VALUE"),
        (("--yak-log-lines=-1",), "'-1' is not a number from 0 on"),
        (("-o", "yak_brokers=x"), "'x' is not a number from 1 on"),
    ],
)
def test_options_that_make_no_sense_are_refused_at_once(examples, arguments, told):
    examples.write(test_nothing="def test_nothing(): pass")
    result = examples.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert told in "\n".join(result.errlines)


def test_the_command_line_holds_where_a_test_says_nothing(examples):
    examples.write(
        test_options="""
        import pytest
        from yak.client.admin import Admin

        def configs(cluster):
            return {each.name: each.value for each in Admin(cluster.bootstrap).configs("broker", "1")}

        def test_as_said(yak_cluster):
            assert len(yak_cluster.brokers) == 2
            assert configs(yak_cluster)["num.partitions"] == "5"
            assert configs(yak_cluster)["fetch.max.bytes"] == "4096"

        @pytest.mark.yak(brokers=1, configs={"num.partitions": 7})
        def test_marker_arguments_win(yak_cluster):
            assert len(yak_cluster.brokers) == 1
            assert configs(yak_cluster)["num.partitions"] == "7"
            assert configs(yak_cluster)["fetch.max.bytes"] == "4096"

        @pytest.mark.parametrize("yak_topic", [4, {"partitions": 2}], indirect=True)
        @pytest.mark.yak(brokers=1, partitions=9)
        def test_parameters_win_over_all(yak_cluster, yak_topic, request):
            wanted = request.node.callspec.params["yak_topic"]
            found = Admin(yak_cluster.bootstrap).metadata().topics[yak_topic]
            assert len(found.partitions) == (4 if wanted == 4 else 2)
        """
    )
    result = examples.run("--yak-brokers=2", "--yak-config=num.partitions=5", "-o", "yak_configs=fetch.max.bytes=4096")
    result.assert_outcomes(passed=4)


def test_plugin_causes_no_warning(examples):
    examples.write(
        test_strict="""
        def test_restart(yak_cluster, yak_topic):
            yak_cluster.kill(1)
            yak_cluster.restart(1)
            assert yak_cluster.leader_of(yak_topic) == 1

        def test_next(yak_cluster, yak_session_cluster):
            pass
        """
    )
    result = examples.run("-W", "error")
    result.assert_outcomes(passed=2)
    assert "Warning" not in result.stdout.str() + result.stderr.str()


def test_workers_of_xdist_have_clusters_of_their_own(examples):
    examples.write(
        test_workers="""
        import os, time
        import pytest

        @pytest.mark.parametrize("half", [0, 1])
        def test_half(yak_cluster, half, tmp_path_factory):
            meeting = tmp_path_factory.getbasetemp().parent / "meeting"
            meeting.mkdir(exist_ok=True)
            (meeting / str(half)).write_text(os.environ["PYTEST_XDIST_WORKER"] + " " + yak_cluster.bootstrap)
            other = meeting / str(1 - half)
            for _ in range(600):
                if other.exists() and other.read_text():
                    break
                time.sleep(0.05)
            worker, bootstrap = other.read_text().split()
            assert worker != os.environ["PYTEST_XDIST_WORKER"]
            assert bootstrap != yak_cluster.bootstrap
        """
    )
    examples.run("-p", "xdist", "-n", "2").assert_outcomes(passed=2)


WAITS = """
import os, time

def test_waits(yak_cluster):
    os.write(1, b"ready\\n")
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda each: each.name)
def test_a_run_that_is_ended_leaves_nothing(examples, number):
    examples.write(test_long=WAITS)
    run = examples.start()
    assert any("serve" in each for each in examples.left_behind())
    run.send_signal(number)
    run.communicate(timeout=30)
    examples.wait_until_nothing_is_left()


def test_a_run_that_is_killed_while_its_brokers_start_leaves_nothing(examples):
    examples.write(
        test_long="""
        import os, threading

        def end_soon():
            while not any(name.startswith("yak-testing") for name in os.listdir(os.environ["TMPDIR"])):
                pass
            threading.Timer(0.15, lambda: os.kill(os.getpid(), 9)).start()

        def test_never_begins(request):
            threading.Thread(target=end_soon).start()
            request.getfixturevalue("yak_cluster")
        """
    )
    command = [sys.executable, "-m", "pytest", "-p", "yak.testing.plugin"]
    run = subprocess.run(command, cwd=examples.tmp.parent, capture_output=True, timeout=60)
    assert run.returncode == -signal.SIGKILL
    examples.wait_until_nothing_is_left()


@pytest.mark.exec_yak
def test_plugin_loads_and_starts_nothing_of_yak_before_a_test_requests_it(examples):
    examples.write(
        test_unused="""
        import os, sys

        def test_loaded_modules_are_those_of_the_plugin_only():
            loaded = {name for name in sys.modules if name.split(".")[0] in {"yak", "kio", "confluent_kafka", "redis"}}
            assert loaded == {"yak", "yak.version", "yak.testing", "yak.testing.plugin"}
            assert os.listdir(os.environ["TMPDIR"]) == []
        """
    )
    examples.run("-p", "no:cacheprovider", f"--basetemp={examples.tmp.parent / 'base'}").assert_outcomes(passed=1)


def test_a_failover_needs_another_replica_and_an_unknown_release_fails_plainly(examples):
    examples.write(
        test_alone="""
        import pytest
        from yak.errors import CheckFailed

        def test_alone(yak_cluster, yak_topic):
            with pytest.raises(CheckFailed, match="no other replica"):
                yak_cluster.failover(yak_topic)
            assert yak_cluster.broker(1).state == "running"

        @pytest.mark.yak(as_kafka="1.1")
        def test_unknown(yak_cluster):
            pass
        """
    )
    result = examples.run()
    result.assert_outcomes(passed=1, errors=1)
    assert "yak.as.kafka=1.1 cannot be used" in result.stdout.str()
    assert "Traceback" not in result.stdout.str()


def test_the_option_and_the_ini_file_say_which_kafka_it_is(examples, pytester):
    examples.write(
        test_release="""
        from kafka import KafkaAdminClient

        def test_release(yak_bootstrap):
            admin = KafkaAdminClient(bootstrap_servers=yak_bootstrap)
            version = admin._manager.broker_version_data.broker_version
            admin.close()
            assert version == (2, 4)
        """
    )
    examples.run("--yak-as-kafka", "2.4").assert_outcomes(passed=1)
    (pytester.path / "pytest.ini").write_text("[pytest]\nyak_as_kafka = 2.4\n")
    examples.run().assert_outcomes(passed=1)
