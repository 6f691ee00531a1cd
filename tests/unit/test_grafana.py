"""packaging/grafana: files that Grafana and Prometheus can read."""

import json
import re
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[2] / "packaging" / "grafana"
DASHBOARD = json.loads((FOLDER / "yak.json").read_text())
ALERTS = yaml.safe_load((FOLDER / "alerts.yml").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]


def test_every_panel_has_its_place_and_queries_the_chosen_source():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert max(x for x, _y in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
    for panel in PANELS:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["targets"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    assert DASHBOARD["schemaVersion"] >= 38, "Grafana 10"


def test_every_variable_that_is_used_is_there():
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\}?", (FOLDER / "yak.json").read_text()))
    assert used <= names


@pytest.mark.parametrize(
    "about",
    [
        "yak_in_bytes_total",
        "yak_topic_in_bytes_total",
        "yak_topic_out_messages_total",
        "0.5, sum by (api, le) (rate(yak_request_seconds_bucket",
        "0.99, sum by (api, le) (rate(yak_request_seconds_bucket",
        "yak_request_errors_total",
        "yak_under_replicated_partitions",
        "yak_offline_partitions",
        "yak_isr_shrinks_total",
        "yak_elections_total",
        "yak_election_seconds_sum",
        "yak_replica_lag_messages",
        "yak_group_lag_messages",
        "yak_event_loop_delay_seconds_bucket",
        "process_resident_memory_bytes",
        "yak_store_call_seconds_bucket",
        "yak_store_outage_current_seconds",
        "yak_logs_size_bytes",
        "yak_log_flush_seconds_bucket",
        "yak_connections{",
    ],
)
def test_the_dashboard_shows(about):
    assert any(about in target["expr"] for panel in PANELS for target in panel["targets"])


def test_every_rule_says_what_and_what_to_do():
    assert len({rule["alert"] for rule in RULES}) == len(RULES) > 15
    for rule in RULES:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert set(rule["annotations"]) == {"summary", "description"}
        assert 'job="yak"' in rule["expr"]
        for text in rule["annotations"].values():
            assert text.count("{{") == text.count("}}")


def test_rules_name_only_options_that_a_command_has():
    helps = "".join(each.read_text() for each in (FOLDER.parents[1] / "tests/unit/commands/golden/help").glob("*.txt"))
    named = {option for rule in RULES for option in re.findall(r"--[a-z-]+", " ".join(rule["annotations"].values()))}
    assert {option for option in named if option not in helps} == set()


@pytest.mark.parametrize("expression", [r["expr"] for r in RULES] + [t["expr"] for p in PANELS for t in p["targets"]])
def test_brackets_close(expression):
    stack = []
    for sign in re.sub(r'"[^"]*"', "", expression):
        if sign in "([{":
            stack.append(sign)
        elif sign in ")]}":
            assert stack
            assert stack.pop() + sign in {"()", "[]", "{}"}
    assert not stack
