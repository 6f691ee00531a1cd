"""Write docs/kafka-apis.md from the broker's own table of APIs, or check that it is what the table says.

    python docs/generate_kafka_apis.py            write it
    python docs/generate_kafka_apis.py --check    exit code 4 if it is out of date

The names of what Kafka has come from kio, which generates them from Kafka's message definitions, and so do the versions,
but for the few of `yak.protocol.kafka_4_4`.
"""

import sys
from pathlib import Path

from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from yak.broker.apis import TABLE
from yak.broker.apis.api_versions import ADVERTISED_MIN
from yak.broker.apis.authorization_rules import RULES, Rule
from yak.protocol.schemas import versions_of

PAGE = Path(__file__).resolve().parent / "kafka-apis.md"
CHECK_FAILED = 4
HEAD = """# Kafka APIs

The APIs that YAK's brokers support, with their versions and deliberate differences from Kafka. `docs/generate_kafka_apis.py` generates this page from the table that also drives request dispatch and ApiVersions; a test compares them.

Vote, BeginQuorumEpoch, EndQuorumEpoch, Envelope, FetchSnapshot and UpdateRaftVoter are between brokers of a metadata quorum, so ApiVersions does not list them, as in Kafka. It lists AddRaftVoter and RemoveRaftVoter in a cluster with a quorum. Message formats before magic 2 are refused.

| key | API | versions | Kafka's versions | not supported, or different |
| --- | --- | --- | --- | --- |
"""

WITH_ACLS = """
## With ACLs

The operation and the resource that a client needs with [ACLs](acls.md). *alternative* replaces the right before it. Lists omit resources that the client may not DESCRIBE.

| key | API | needs |
| --- | --- | --- |
"""

NOT_IN_KIO = ("StreamsGroupTopologyDescriptionUpdate (93)", "UnregisterController (94)")
"""APIs of Kafka 4.4 without messages in kio; kafka-broker-api-versions lists them."""

TELEMETRY = """
Apache Kafka advertises GetTelemetrySubscriptions and PushTelemetry only with a receiver of client metrics. YAK has none, so clients push no metrics.
"""


def span(versions: range) -> str:
    """`range(3, 14)` is `3 to 13`."""
    first, last = versions[0], versions[-1]
    return str(first) if first == last else f"{first} to {last}"


def kafka_name(key: int) -> str:
    """Kafka's own name of an API: `ListOffsets`."""
    paths = schema_name_map[api_key_map[key]][min(schema_name_map[api_key_map[key]])]
    return paths[EntityType.request].rsplit(":", 1)[1].removesuffix("Request")


def page() -> str:
    """The whole page."""
    text = HEAD
    for key, api in sorted(TABLE.items()):
        absent = "; ".join(api.ABSENT).replace("|", "\\|") or "nothing"
        text += f"| {key} | {api.NAME} | {span(api.VERSIONS)} | {span(versions_of(key))} | {absent} |\n"
    for key, first in sorted(ADVERTISED_MIN.items()):
        text += f"\nApiVersions lists {TABLE[key].NAME} from version {first} on, as Apache Kafka 4 does for older librdkafka (KAFKA-18659); "
        text += f"versions below {TABLE[key].VERSIONS[0]} are still refused.\n"
    missing = [f"{kafka_name(key)} ({key})" for key in sorted(api_key_map) if key not in TABLE]
    text += WITH_ACLS
    for key, rules in sorted(RULES.items()):
        text += f"| {key} | {TABLE[key].NAME} | {'; '.join(map(rule_text, rules)) or 'nothing'} |\n"
    return f"{text}\n## APIs that YAK does not have\n\n{', '.join((*missing, *NOT_IN_KIO))}.\n{TELEMETRY}"


def rule_text(rule: Rule) -> str:
    """A rule as the page shows it: `WRITE TOPIC`."""
    return f"{rule.operation.name} {rule.kind.name}" + (f" ({rule.note})" if rule.note else "")


def main(argv: list[str]) -> int:
    """Write the page, or with `--check` compare it."""
    if argv == ["--check"]:
        return 0 if PAGE.exists() and PAGE.read_text() == page() else CHECK_FAILED
    if argv:
        print(__doc__, file=sys.stderr)
        return 2
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
