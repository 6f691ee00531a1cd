"""The client libraries whose own tests run against YAK: where their sources are, and how to build and run them."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Suite(NamedTuple):
    """One library at one tag.

    `build` and `test` are commands in its sources. Replaced in commands and environment: `{python}` (an environment of
    its own), `{host}`, `{port}`, `{bootstrap}`, `{ports}` (all ports of each broker), `{proxies}` (a proxy for each
    broker, in toxiproxy's JSON), `{control}` (the port where `stand_ins/docker` stops brokers), `{report}` (the file that
    the tests write), `{here}` (this folder), `{yak}`, `{jars}` (of Kafka, where the suite calls it).
    """

    name: str
    repository: str
    tag: str
    needs: tuple[str, ...]
    """Programs on PATH."""
    build: tuple[str, ...]
    test: str
    report: str
    """The form of the tests' report: junit, go, librdkafka or jest."""
    environment: Mapping[str, str] = {}
    brokers: int = 1
    first_node_id: int = 1
    host: str = "127.0.0.1"
    """What the brokers advertise."""
    configs: Mapping[str, str] = {}
    """Of each broker; `{node}` is its id."""
    secured: tuple[str, ...] = ()
    """Security protocols of further listeners of each broker, after PLAINTEXT; their certificate is for localhost."""
    set_up: tuple[str, ...] = ()
    """Commands that run before the tests, on the running cluster."""
    starts_cluster: bool = True
    """False: the tests start their brokers themselves, through a stand-in for what they call."""
    calls_kafka: bool = False
    """The tests call Kafka's scripts (`stand_ins/kafka`), which run its jars."""
    files: Mapping[str, str] = {}
    """Files to write into the sources, with the same replacements."""
    serves: tuple[str, ...] = ()
    """Commands that run beside the tests."""
    left_out: str = ""
    """What of the library's tests is not run, and why."""

    @property
    def url(self) -> str:
        """Where its sources are."""
        return f"https://github.com/{self.repository}"


def _new_user(name: str, password: str, mechanism: str = "") -> str:
    return f"sh -c 'printf {password} | {{yak}} users add {name} --password-file - {mechanism} -y -b {{bootstrap}}'"


_CLUSTER_MIN_ISR: Final = (
    "{here}/stand_ins/kafka/bin/kafka-configs.sh --bootstrap-server {bootstrap} --alter"
    " --entity-type brokers --entity-default --add-config min.insync.replicas=1"
)
"""Kafka's controller stores it at its start (KIP-966)."""
_SECURITY: Final = "TLS and SASL, which these runs do without"
SUITES: Final = (
    Suite(
        "kafka-python",
        "dpkp/kafka-python",
        "3.0.11",
        needs=("git",),
        build=("{python} -m pip install -q -e . pytest pytest-mock pytest-timeout crc32c lz4 python-snappy zstandard",),
        test="{python} -m pytest -q test/integration --junitxml={report}"
        " --ignore=test/integration/test_sasl_integration.py --ignore=test/integration/test_ssl_integration.py",
        report="junit",
        environment={"KAFKA_URI": "kafka://{host}:{port}", "KAFKA_VERSION": "4.3.0", "KAFKA_ROOT": "{here}"},
        first_node_id=0,
        configs={"num.partitions": "4", "group.min.session.timeout.ms": "1000"},
        left_out=f"{_SECURITY}; tests without a broker",
    ),
    Suite(
        "aiokafka",
        "aio-libs/aiokafka",
        "v0.14.0",
        needs=("git", "gcc"),
        build=(
            "{python} -m pip install -q Cython setuptools",
            "{python} -m pip install -q -e .[lz4] pytest==9.0.2 pytest-asyncio==1.3.0 pytest-mock==3.15.1 Pygments==2.19.2",
        ),
        test="{python} -m pytest -q tests --docker-image yak/kafka:2.13_2.8.1 --no-pull --junitxml={report}",
        report="junit",
        environment={"PYTHONPATH": "{here}/stand_ins", "YAK": "{yak}"},
        starts_cluster=False,
        left_out="nothing; tests without a broker are among the passed",
    ),
    Suite(
        "confluent-kafka-python",
        "confluentinc/confluent-kafka-python",
        "v2.15.0",
        needs=("git", "java"),
        build=(
            "{python} -m pip install -q confluent-kafka==2.15.0",
            "{python} -m pip install -q pytest pytest-timeout pytest-asyncio requests-mock respx async-timeout attrs",
            "{python} -m pip install -q avro requests cachetools httpx authlib fastavro jsonschema googleapis-common-protos protobuf",
        ),
        test="{python} -m pytest -q tests/integration/admin tests/integration/consumer tests/integration/producer"
        " --timeout=300 --junitxml={report}",
        report="junit",
        environment={
            "BROKERS": "{bootstrap}",
            "PYTHONPATH": "{here}/stand_ins",
            "YAK": "{yak}",
            "KAFKA_JARS": "{jars}",
        },
        calls_kafka=True,
        set_up=(_CLUSTER_MIN_ISR,),
        left_out="share groups and the schema registry's client",
    ),
    Suite(
        "franz-go",
        "twmb/franz-go",
        "v1.21.5",
        needs=("git", "go"),
        build=("go build ./...",),
        test="go test -json -count=1 -timeout 30m ./...",
        report="go",
        environment={"KGO_SEEDS": "{bootstrap}", "KGO_TEST_RF": "3", "KGO_TEST_RECORDS": "50000"},
        brokers=3,
        left_out="its modules kadm, kfake and sr; its tests write 50,000 records each, not 500,000",
    ),
    Suite(
        "sarama",
        "IBM/sarama",
        "v1.60.1",
        needs=("git", "go", "java"),
        build=(
            "go install github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0",
            "go vet -tags functional .",
        ),
        test="go test -json -count=1 -timeout 30m -tags functional -run"
        " ^Test(Func|Java|VersionMatrix|Interceptors|ReadOnlyAndAll|AsyncProducerRemoteBrokerClosed"
        "|Consumer(FetchFollower|HighWaterMarkOffset|PartialBatch|GroupDeadlock)) .",
        report="go",
        environment={
            "GOBIN": "{here}/../../build/client-suites/bin",
            "TOXIPROXY_ADDR": "http://127.0.0.1:8474",
            "KAFKA_VERSION": "4.1.0",
            "KAFKA_PATH": "{here}/stand_ins/kafka",
            "KAFKA_JARS": "{jars}",
            "BOOTSTRAP": "{bootstrap}",
            "CONTROL_PORT": "{control}",
        },
        calls_kafka=True,
        brokers=5,
        configs={
            "auto.create.topics.enable": "false",
            "broker.rack": "{node}",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        },
        files={"proxies.json": "{proxies}"},
        serves=("{here}/../../build/client-suites/bin/server -config proxies.json",),
        left_out="tests without a broker",
    ),
    Suite(
        "librdkafka",
        "confluentinc/librdkafka",
        "v2.15.0",
        needs=("git", "gcc", "g++", "make", "java"),
        build=("./configure", "make -j2 libs", "make -C tests -j2 build"),
        test="sh -c 'cd tests && ./test-runner -L -p2 -Q -V 4.1.0.0'",
        report="librdkafka",
        environment={
            "TEST_REPORT": "{report}",
            "LD_LIBRARY_PATH": "../src:../src-cpp",
            "BROKERS": "{bootstrap}",
            "KAFKA_PATH": "{here}/stand_ins/kafka",
            "KAFKA_JARS": "{jars}",
        },
        configs={
            "num.partitions": "4",
            "group.min.session.timeout.ms": "1000",
            "super.users": "User:admin",
            "allow.everyone.if.no.acl.found": "true",
        },
        calls_kafka=True,
        brokers=3,
        # a test may start four JVMs, and test-runner ends all tests when one is late
        files={"tests/test.conf": "metadata.broker.list={bootstrap}\ntest.timeout.multiplier=4\n"},
        left_out=f"{_SECURITY}; tests without a broker; it runs in its quick mode",
    ),
    Suite(
        "kafkajs",
        "tulios/kafkajs",
        "v2.2.4",
        needs=("git", "node", "npm", "java"),
        build=("npm install --ignore-scripts --no-audit --no-fund",),
        test="{python} {here}/jest_files.py {report} {here}/stand_ins/kafkajs/jest.config.js"
        " src/broker/__tests__/reauthenticate.spec.js",
        report="jest",
        environment={
            "PORTS": "{ports}",
            "KAFKA_VERSION": "4.1.0",
            "KAFKAJS_DEBUG_PROTOCOL_BUFFERS": "1",
            "NODE_OPTIONS": "--dns-result-order=ipv4first",
            "KAFKA_PATH": "{here}/stand_ins/kafka",
            "KAFKA_JARS": "{jars}",
            "BOOTSTRAP": "{bootstrap}",
        },
        calls_kafka=True,
        brokers=3,
        first_node_id=0,
        host="localhost",
        configs={
            "num.partitions": "2",
            "default.replication.factor": "2",
            "min.insync.replicas": "1",
            "group.initial.rebalance.delay.ms": "0",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "allow.everyone.if.no.acl.found": "true",
        },
        secured=("SSL", "SASL_SSL"),
        set_up=(
            _new_user("test", "testtest"),
            _new_user("bob", "bobbob"),
            _new_user("alice", "alicealice"),
            _new_user("testscram", "testtestscram=256", "--mechanism SCRAM-SHA-256"),
            _new_user("testscram", "testtestscram=512", "--mechanism SCRAM-SHA-512"),
        ),
        left_out="the file `reauthenticate`, whose tokens nothing signs; test files without a broker. The tests' helpers"
        " name fixed ports; jest loads them with the cluster's ports",
    ),
)
