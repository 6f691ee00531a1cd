"""Which of Apache Kafka's published tests run, and where they come from."""

import zipfile
from pathlib import Path
from typing import Final, NamedTuple

VERSION: Final = "4.3.1"
"""Kafka 4.4.0 publishes no kafka-clients-integration-tests."""
_LIBRARIES: Final = (
    ("org.junit.platform", "junit-platform-console", "1.13.1"),
    ("org.hamcrest", "hamcrest", "3.0"),
    ("org.mockito", "mockito-core", "5.20.0"),
    ("org.mockito", "mockito-junit-jupiter", "5.20.0"),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)
_TESTED: Final = (
    "kafka-clients-integration-tests",
    "kafka-streams-integration-tests",
    "connect-runtime",
    "connect-mirror",
    "kafka-streams",
    "kafka-server",
    "kafka-tools",
    "kafka_2.13",
)
_TEST_JARS: Final = (
    *(*_TESTED, "kafka-clients", "kafka-server-common", "kafka-group-coordinator", "kafka-metadata", "kafka-storage"),
)
_JARS: Final = (
    *("kafka_2.13", "kafka-tools", "kafka-streams", "kafka-streams-scala_2.13", "connect-runtime", "connect-mirror"),
    *("kafka-streams-examples", "kafka-test-common-runtime", "kafka-test-common-internal-api"),
)


class Suite(NamedTuple):
    """The test classes of one jar. `package` is their folder in it; `left_out` has the classes that say nothing here."""

    name: str
    jar: str
    package: str
    left_out: dict[str, str]
    only: frozenset[str] = frozenset()
    """The classes that use brokers, where most others are unit tests; empty for all."""


_SHARE = "share groups (KIP-932), which YAK does not have"
_SECURITY = "needs authentication or an authorizer, which these runs do without"
_INSIDE = "looks into the broker's process"
_NO_BROKER = "uses no broker"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CORE: Final = _names("""
    AddPartitionsTest AddPartitionsToTxnRequestServerTest AlterUserScramCredentialsRequestTest ApiVersionsRequestTest
    ConsumerGroupDescribeRequestTest ConsumerGroupHeartbeatRequestTest ConsumerProtocolMigrationTest CreateTopicsRequestTest
    DeleteGroupsRequestTest DeleteRecordsRequestTest DeleteTopicsRequestTest DescribeClusterRequestTest
    DescribeGroupsRequestTest DescribeQuorumRequestTest DescribeUserScramCredentialsRequestTest EdgeCaseRequestTest
    FetchRequestMaxBytesTest FetchRequestTest GroupCoordinatorIntegrationTest HeartbeatRequestTest JoinGroupRequestTest
    LeaveGroupRequestTest ListGroupsRequestTest ListOffsetsRequestTest LogOffsetTest OffsetCommitRequestTest
    OffsetDeleteRequestTest OffsetFetchRequestTest OffsetsForLeaderEpochRequestTest PlaintextAdminIntegrationTest
    ProduceRequestTest SyncGroupRequestTest TransactionsTest TxnOffsetCommitRequestTest WriteTxnMarkersRequestTest
""")
_SERVER: Final = _names("MetadataRequestTest")
_TOOLS: Final = _names("""
    AclCommandTest BrokerApiVersionsCommandTest ClusterToolTest ConfigCommandIntegrationTest ConsoleConsumerTest
    DeleteConsumerGroupsTest DeleteOffsetsConsumerGroupCommandIntegrationTest DeleteRecordsCommandTest
    DescribeConsumerGroupTest FeatureCommandTest GetOffsetShellTest GroupsCommandTest LeaderElectionCommandTest
    ListConsumerGroupTest LogDirsCommandTest MetadataQuorumCommandTest ReassignPartitionsCommandTest
    ResetConsumerGroupOffsetTest TopicCommandTest UserScramCredentialsCommandTest
""")
SUITES: Final = (
    Suite(
        "clients",
        "kafka-clients-integration-tests",
        "org/apache/kafka/",
        {
            "ShareConsumerTest": _SHARE,
            "ShareConsumerRackAwareTest": _SHARE,
            "GroupAuthorizerIntegrationTest": _SECURITY,
            "DescribeAuthorizedOperationsTest": _SECURITY,
            "SaslPlainPlaintextConsumerTest": _SECURITY,
            "CustomQuotaCallbackTest": "loads a Java class into the broker",
            "AdminClientWithPoliciesIntegrationTest": "loads a Java class into the broker",
            "CreateTopicsRequestWithPolicyTest": "loads a Java class into the broker",
            "ConsumerWithLegacyMessageFormatIntegrationTest": _INSIDE
            + ": it writes records of message formats 0 and 1 into its log",
        },
    ),
    Suite(
        "streams",
        "kafka-streams-integration-tests",
        "org/apache/kafka/streams/integration/",
        {
            "AbstractJoinIntegrationTest": "the base of other tests",
            "KTableEfficientRangeQueryTest": _NO_BROKER,
            "KTableKTableForeignKeyJoinIntegrationTest": _NO_BROKER,
            "KTableKTableForeignKeyJoinMaterializationIntegrationTest": _NO_BROKER,
            "PapiDslIntegrationTest": _NO_BROKER,
            "ProcessingExceptionHandlerIntegrationTest": _NO_BROKER,
            "RelaxedNullKeyRequirementJoinTest": _NO_BROKER,
            "StreamStreamJoinIntegrationTest": _NO_BROKER,
            "StreamTableJoinIntegrationTest": _NO_BROKER,
            "StreamTableJoinWithGraceIntegrationTest": _NO_BROKER,
            "TableTableJoinIntegrationTest": _NO_BROKER,
        },
    ),
    Suite(
        "connect",
        "connect-runtime",
        "org/apache/kafka/connect/integration/",
        {
            "RestForwardingIntegrationTest": _NO_BROKER,
            "StartAndStopCounterTest": _NO_BROKER,
            "StartAndStopLatchTest": _NO_BROKER,
        },
    ),
    Suite(
        "mirror",
        "connect-mirror",
        "org/apache/kafka/connect/mirror/integration/",
        {
            "MirrorConnectorsIntegrationSSLTest": _SECURITY,
            "MirrorConnectorsWithCustomForwardingAdminIntegrationTest": _SECURITY,
        },
    ),
    Suite("core", "kafka_2.13", "kafka/", {}, _CORE),
    Suite("server", "kafka-server", "org/apache/kafka/", {}, _SERVER),
    Suite(
        "tools",
        "kafka-tools",
        "org/apache/kafka/tools/",
        {
            "ReassignPartitionsCommandTest": "expects throttles that are not set to be missing among a broker's configs; YAK"
            " lists their defaults"
        },
        _TOOLS,
    ),
)


def pom() -> str:
    """The dependencies of all suites, for Maven."""
    wanted = [
        *(f"{_dependency('org.apache.kafka', name, VERSION)}</dependency>" for name in _JARS),
        *(
            f"{_dependency('org.apache.kafka', name, VERSION)}<classifier>test</classifier></dependency>"
            for name in _TEST_JARS
        ),
        *(f"{_dependency(*each)}</dependency>" for each in _LIBRARIES),
    ]
    return f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>yak</groupId><artifactId>kafka-tests</artifactId><version>1</version>
  <dependencies>
    {(chr(10) + "    ").join(wanted)}
  </dependencies>
</project>
"""


def _dependency(group: str, artifact: str, version: str) -> str:
    return f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"


def classes(suite: Suite, libs: Path) -> list[str]:
    """The names of the suite's test classes, with their packages; sorted."""
    with zipfile.ZipFile(libs / f"{suite.jar}-{VERSION}-test.jar") as jar:
        paths = [name.removesuffix(".class") for name in jar.namelist() if name.endswith("Test.class")]
    found = (path.replace("/", ".") for path in paths if path.startswith(suite.package) and "$" not in path)
    return sorted(name for name in found if not suite.only or name.rpartition(".")[2] in suite.only)
