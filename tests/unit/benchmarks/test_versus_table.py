"""The comparison's arithmetic and its page, without a broker."""

import json
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest


@pytest.fixture
def table() -> ModuleType:
    from versus import table

    return table


def sample(table: ModuleType) -> object:
    made = table.Table()
    for yak, kafka in ((10.0, 20.0), (12.0, 10.0), (90.0, 11.0)):
        made.add("rate", "records/s", table.AT_LEAST_KAFKA, "yak", yak, client_limited=True)
        made.add("rate", "records/s", table.AT_LEAST_KAFKA, "kafka", kafka)
    made.add("memory", "MB", table.Goal(1 / 6, at_least=False), "yak", 50.0)
    made.add("memory", "MB", table.Goal(1 / 6, at_least=False), "kafka", 200.0)
    made.add("only one side", "s", None, "kafka", 1.0)
    return made


def test_a_ratio_is_of_medians_and_meets_its_goal_or_not(table: ModuleType) -> None:
    rate, memory = sample(table).rows()  # type: ignore[attr-defined]
    assert (rate.median("yak"), rate.median("kafka")) == (12.0, 11.0)
    assert rate.ratio == pytest.approx(12 / 11)
    assert rate.met is True
    assert memory.ratio == 0.25
    assert memory.met is False


def test_the_side_whose_client_was_busy_in_most_rounds_is_noted(table: ModuleType) -> None:
    rate, memory = sample(table).rows()  # type: ignore[attr-defined]
    assert rate.note() == "client (yak)"
    assert memory.note() == ""


def test_the_json_is_a_list_with_the_contracts_keys(table: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "build" / "bench.json"
    table.write_json(path, sample(table).rows())  # type: ignore[attr-defined]
    found = json.loads(path.read_text())
    assert list(found[0])[:7] == ["name", "unit", "yak", "kafka", "ratio", "goal", "met"]
    assert (found[1]["goal"], found[1]["met"]) == ("<= 0.167", False)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0971, "0.0971"), (54.9, "54.9"), (999.4, "999"), (1523.0, "1 520"), (4060000.0, "4 060 000")]
)
def test_figures_have_three_digits(table: ModuleType, value: float, text: str) -> None:
    assert table.short(value) == text


FACTS = dict.fromkeys(("command", "when", "machine", "kafka_version", "java", "rounds", "client"), "x")


def test_the_page_says_where_yak_loses(table: ModuleType) -> None:
    from versus.page import ONE, put_section, section

    text = put_section("", ONE, section(ONE, sample(table).rows(), ["one note"], FACTS))  # type: ignore[attr-defined]
    assert "- memory: 50 against 200 MB, ratio 0.25, goal <= 0.167" in text
    assert "| rate | records/s | 12 (10 to 90) | 11 (10 to 20) | 1.09 | >= 1 | yes | client (yak) |" in text
    assert "- one note" in text


def test_lines_of_a_section_have_at_most_100_characters_except_in_tables() -> None:
    from versus.page import wrapped

    text = f"## {'title ' * 20}\n\n{'word ' * 29}word\nend\n\n- {'first ' * 19}first\n  more\n- second\n\n| {'cell | ' * 20}\n\nlast"
    lines = wrapped(text).splitlines()
    assert all(len(line) <= 100 for line in lines if not line.startswith(("#", "|")))
    assert [line[:8] for line in lines] == [
        *("## title", "", "word wor", "word wor", "", "- first ", "  first ", "- second", "", "| cell |", "", "last")
    ]
    assert lines[3].endswith("word end")
    assert lines[6].endswith("first more")


def test_a_run_replaces_its_own_section_and_keeps_the_rest_of_the_page(table: ModuleType) -> None:
    from versus.page import PARTS, THREE, put_section, section

    rows = sample(table).rows()  # type: ignore[attr-defined]
    text = "# Benchmarks\n"
    for part in PARTS:
        text = put_section(text, part, section(part, rows, [f"first {part}"], FACTS))
    text += "\n## Transactions\n\nMeasured by hand.\n"
    assert [part for part in PARTS if f"first {part}" in text] == list(PARTS)
    again = put_section(text, THREE, section(THREE, rows, ["second three"], FACTS))
    assert "first three" not in again
    assert again.replace("second three", "first three") == text


def test_the_page_has_one_place_for_each_section_and_nothing_else_in_it() -> None:
    from versus.page import PARTS, SECTIONS

    page = (Path(__file__).resolve().parents[3] / "docs/benchmarks.md").read_text(encoding="utf-8")
    for part in PARTS:
        begin, end = page.index(f"<!-- begin: {part} -->"), page.index(f"<!-- end: {part} -->")
        titles = [line for line in page[begin:end].splitlines() if line.startswith("## ")]
        assert titles == [f"## {SECTIONS[part].title}"]


def test_the_failover_section_names_the_clients_settings(table: ModuleType) -> None:
    from versus.page import FAILOVER, section

    facts = {**FACTS, "client": "`retry.backoff.ms=5`", "reader": "`fetch.wait.max.ms=100`"}
    text = section(FAILOVER, sample(table).rows(), [], facts)  # type: ignore[attr-defined]
    assert "on both sides alike: `retry.backoff.ms=5`;\nthe consumer also has `fetch.wait.max.ms=100`." in text


def test_every_kill_is_a_sample_and_the_result_is_one_line() -> None:
    from versus.cluster_rounds import FailoverRounds

    from yak.local.bench.failover import FailoverResult, FailoverSettings, Kill
    from yak.local.demo.delivery import Delivery

    sides = [SimpleNamespace(name="yak"), SimpleNamespace(name="kafka")]
    rounds = FailoverRounds(sides, 1, 2, lambda _text: None)  # type: ignore[arg-type]
    for side, pauses in (("yak", (0.1, 0.2, 0.4)), ("kafka", (9.0, 10.0, 12.0))):
        kills = [Kill(1, 1, True, (0,), 1.0, writes_s=pause) for pause in pauses]
        assert rounds.table().rows() == []  # no row before both sides have it
        rounds.results[side] = FailoverResult(FailoverSettings(), kills, Delivery("t", 90, 90, 0, 0, 0, 0, 0))
    median, p99, longest = rounds.table().rows()
    assert (median.name, median.median("yak"), median.median("kafka")) == (
        "writes to what the killed broker led: median",
        200.0,
        10_000.0,
    )
    assert median.met
    assert p99.samples == {"yak": [400.0], "kafka": [12_000.0]}
    assert longest.goal is None
    assert rounds.notes()[0].startswith("yak: 3 kills, 3 of them of the controller; 90 records acknowledged, 0 lost")


def test_a_kafka_cluster_is_configured_as_one_of_three(tmp_path: Path) -> None:
    from versus.kafka_cluster import KafkaCluster, KafkaNode

    cluster = KafkaCluster(tmp_path, tmp_path)
    cluster.nodes = {
        number: KafkaNode(number, tmp_path / str(number), 9000 + number, 9100 + number) for number in (1, 2, 3)
    }
    text = cluster._properties(cluster.nodes[2])
    for line in (
        "node.id=2",
        "controller.quorum.bootstrap.servers=127.0.0.1:9101,127.0.0.1:9102,127.0.0.1:9103",
        "offsets.topic.replication.factor=3",
        "min.insync.replicas=2",
    ):
        assert line in text.splitlines()
    assert "timeout" not in text
    assert cluster.nodes[1].voter.startswith("1@127.0.0.1:9101:A")
    assert len({node.voter for node in cluster.nodes.values()}) == 3


def test_all_sizes_partitions_and_clients_are_combined_in_a_full_run() -> None:
    from versus.loads import cells

    full = cells(1.0, quick=False)
    assert len({cell.name for cell in full}) == len(full) == 12
    assert {cell.partitions for cell in full} == {1, 8, 64}
    assert {cell.clients for cell in full} == {1, 20}


def test_kafka_jars_without_maven_report_that_maven_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from versus import kafka_jars

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(kafka_jars.Missing, match="Maven"):
        kafka_jars.kafka_jars(tmp_path / "cache", "4.3.1")
    with pytest.raises(kafka_jars.Missing, match=r"Kafka 4\.4\.0"):
        kafka_jars.compared_jars(tmp_path / "cache")
    with pytest.raises(kafka_jars.Missing, match="Java"):
        kafka_jars.java_version()


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Could not transfer artifact a:b:1 from central: repo.maven.apache.org: Name or service not known", "Missing"),
        ("Could not transfer artifact a:b:1: Connect to 127.0.0.1:1 failed: Connection refused", "Missing"),
        ("Could not find artifact org.apache.kafka:kafka_2.13:jar:99 in central", "Refused"),
        ("[ERROR] Malformed POM pom.xml: Unrecognised tag", "Refused"),
    ],
)
def test_only_a_repository_that_cannot_be_reached_lets_a_test_be_skipped(said: str, kind: str) -> None:
    from versus import kafka_jars

    assert type(kafka_jars.not_fetched("Kafka 99", said)).__name__ == kind
