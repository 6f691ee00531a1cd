"""Writes `yak.json`, the Grafana dashboard: panels are short here, and long as Grafana wants them.

    python packaging/grafana/make_dashboard.py [--check]

With `--check` nothing is written; the result is 1 when the file is not what would be.
"""

import itertools
import json
import sys
from pathlib import Path
from typing import Any, Final

from panels import BROKERS, RATE, SOURCE, TOPICS, WIDTH, graph, number, quantile, rate, variable

PATH: Final = Path(__file__).parent / "yak.json"


def at_a_glance() -> list[dict[str, Any]]:
    """What must be green."""
    return [
        number("Brokers up", 'sum(up{job="$job"})', good="high"),
        number(
            "Controllers", 'sum(yak_is_controller{job="$job"})', good="one", what="Exactly one broker has the office."
        ),
        number("Offline partitions", 'max(yak_offline_partitions{job="$job"})', what="Without a leader."),
        number("Below min ISR", 'sum(yak_under_min_isr_partitions{job="$job"})', what="Take no acks=all."),
        number("Under-replicated", 'sum(yak_under_replicated_partitions{job="$job"})'),
        number("Redis", 'min(yak_store_connected{job="$job"})', good="high", what="1 while every broker reaches it."),
        number("Offline replicas", 'sum(yak_offline_replicas{job="$job"})', what="On disks that failed."),
        number(
            "Bugs",
            'sum(increase(yak_bugs_total{job="$job"}[1h]))',
            what="In the last hour; the brokers' logs have them.",
        ),
    ]


def throughput() -> list[dict[str, Any]]:
    """What clients write and read."""
    return [
        graph("Written by clients", "Bps", (rate("yak_in_bytes_total", "instance"), "{{instance}}"), stacked=True),
        graph("Read by consumers", "Bps", (rate("yak_out_bytes_total", "instance"), "{{instance}}"), stacked=True),
        graph(
            "Messages",
            "cps",
            (f"sum(rate(yak_in_messages_total{{{BROKERS}}}{RATE}))", "in"),
            (f"sum(rate(yak_out_messages_total{{{BROKERS}}}{RATE}))", "out"),
        ),
        graph(
            "Replication",
            "Bps",
            (rate("yak_replication_in_bytes_total", "instance"), "{{instance}} fetched"),
            (rate("yak_replication_out_bytes_total", "instance"), "{{instance}} given"),
        ),
        graph(
            "Bytes in by topic", "Bps", (f"topk(10, {rate('yak_topic_in_bytes_total', 'topic', TOPICS)})", "{{topic}}")
        ),
        graph(
            "Bytes out by topic",
            "Bps",
            (f"topk(10, {rate('yak_topic_out_bytes_total', 'topic', TOPICS)})", "{{topic}}"),
        ),
        graph(
            "Messages in by topic",
            "cps",
            (f"topk(10, {rate('yak_topic_in_messages_total', 'topic', TOPICS)})", "{{topic}}"),
        ),
        graph(
            "Messages out by topic",
            "cps",
            (f"topk(10, {rate('yak_topic_out_messages_total', 'topic', TOPICS)})", "{{topic}}"),
        ),
    ]


def requests() -> list[dict[str, Any]]:
    """By API."""
    waits = "Fetches and joins include what they waited for."
    return [
        graph("Requests", "reqps", (rate("yak_request_seconds_count", "api"), "{{api}}")),
        graph("Latency p50", "s", (quantile(0.5, "yak_request_seconds", "api"), "{{api}}"), what=waits),
        graph("Latency p99", "s", (quantile(0.99, "yak_request_seconds", "api"), "{{api}}"), what=waits),
        graph("Errors", "cps", (rate("yak_request_errors_total", "api, code"), "{{api}} {{code}}")),
        graph("Bad requests", "cps", (rate("yak_bad_requests_total", "kind"), "{{kind}}")),
        graph(
            "Connections",
            "short",
            (f"yak_connections{{{BROKERS}}}", "{{instance}}"),
            (f"yak_http_connections{{{BROKERS}}}", "{{instance}} HTTP"),
        ),
        graph("Requests that wait", "short", (f"yak_requests_waiting{{{BROKERS}}}", "{{instance}}")),
        graph(
            "Memory for clients",
            "bytes",
            (f"yak_request_memory_bytes{{{BROKERS}}}", "{{instance}}"),
            what="Past yak_request_memory_limit_bytes connections are not read for a while.",
        ),
    ]


def replication() -> list[dict[str, Any]]:
    """Who is in sync, and how elections go."""
    return [
        graph(
            "Under-replicated and offline",
            "short",
            (f"yak_under_replicated_partitions{{{BROKERS}}}", "{{instance}} under-replicated"),
            (f"yak_under_min_isr_partitions{{{BROKERS}}}", "{{instance}} below min ISR"),
            (f"max(yak_offline_partitions{{{BROKERS}}})", "offline"),
        ),
        graph(
            "Changes of in-sync sets",
            "cps",
            (rate("yak_isr_shrinks_total", "instance"), "{{instance}} shrinks"),
            (rate("yak_isr_expands_total", "instance"), "{{instance}} expands"),
            (rate("yak_isr_changes_refused_total", "instance"), "{{instance}} refused"),
        ),
        graph(
            "Replica lag in records",
            "short",
            (f"max by (replica) (yak_replica_lag_max_messages{{{BROKERS}}})", "{{replica}}"),
        ),
        graph(
            "Replica lag in time", "s", (f"max by (replica) (yak_replica_lag_max_seconds{{{BROKERS}}})", "{{replica}}")
        ),
        graph(
            "Partitions that lag most",
            "short",
            (f"topk(10, yak_replica_lag_messages{{{TOPICS}}})", "{{topic}}-{{partition}} on {{replica}}"),
        ),
        graph("Leaders", "short", (f"yak_leaders{{{BROKERS}}}", "{{instance}}"), what="Even where load is."),
        graph(
            "Elections",
            "short",
            (f'sum by (cause) (increase(yak_elections_total{{job="$job"}}{RATE}))', "{{cause}}"),
            (f'sum(increase(yak_unclean_elections_total{{job="$job"}}{RATE}))', "unclean"),
            (f'sum(increase(yak_elections_without_leader_total{{job="$job"}}{RATE}))', "no candidate"),
        ),
        graph(
            "Duration of elections",
            "s",
            (
                f'sum(rate(yak_election_seconds_sum{{job="$job"}}{RATE})) / sum(rate(yak_election_seconds_count{{job="$job"}}{RATE}))',
                "mean of a round",
            ),
            what="From when the controller saw the cause until all have a leader.",
        ),
        graph("Controller", "short", ('yak_is_controller{job="$job"}', "{{instance}}"), stacked=True),
        graph(
            "Metadata", "short", (f"yak_metadata_offset{{{BROKERS}}}", "{{instance}}"), what="The last record acted on."
        ),
    ]


def groups() -> list[dict[str, Any]]:
    """Who reads, and how far behind."""
    return [
        graph(
            "Group lag",
            "short",
            (f"topk(20, sum by (group, topic) (yak_group_lag_messages{{{TOPICS}}}))", "{{group}} {{topic}}"),
            what="Records that were not committed.",
        ),
        graph("Groups", "short", (f"sum by (state) (yak_groups{{{BROKERS}}})", "{{state}}"), stacked=True),
        graph("Members", "short", (f"topk(20, sum by (group) (yak_group_members{{{BROKERS}}}))", "{{group}}")),
        graph(
            "Rebalances",
            "reqps",
            (rate("yak_request_seconds_count", "api", f'{BROKERS},api=~"JoinGroup|SyncGroup"'), "{{api}}"),
        ),
    ]


def broker() -> list[dict[str, Any]]:
    """Loop, memory, CPU."""
    return [
        graph(
            "Event-loop delay",
            "s",
            (quantile(0.5, "yak_event_loop_delay_seconds", "instance"), "{{instance}} p50"),
            (quantile(0.99, "yak_event_loop_delay_seconds", "instance"), "{{instance}} p99"),
        ),
        graph("Slowest turn since the start", "s", (f"yak_slowest_turn_seconds{{{BROKERS}}}", "{{instance}}")),
        graph("Memory", "bytes", (f"process_resident_memory_bytes{{{BROKERS}}}", "{{instance}}")),
        graph("CPU", "percentunit", (f"rate(process_cpu_seconds_total{{{BROKERS}}}{RATE})", "{{instance}}")),
        graph("Open files", "short", (f"process_open_fds{{{BROKERS}}}", "{{instance}}")),
        graph(
            "Garbage collections",
            "cps",
            (rate("python_gc_collections_total", "instance, generation"), "{{instance}} gen {{generation}}"),
        ),
    ]


def storage() -> list[dict[str, Any]]:
    """Logs and disks."""
    return [
        graph("Log size", "bytes", (f"yak_logs_size_bytes{{{BROKERS}}}", "{{instance}}"), stacked=True),
        graph(
            "Log size by topic",
            "bytes",
            (f"topk(10, sum by (topic) (yak_partition_log_size_bytes{{{TOPICS}}}))", "{{topic}}"),
        ),
        graph(
            "Time to make durable",
            "s",
            (quantile(0.5, "yak_log_flush_seconds", "instance"), "{{instance}} p50"),
            (quantile(0.99, "yak_log_flush_seconds", "instance"), "{{instance}} p99"),
        ),
        graph("Jobs p99", "s", (quantile(0.99, "yak_job_seconds", "kind"), "{{kind}}")),
        graph("Space left", "bytes", (f"yak_data_directory_free_bytes{{{BROKERS}}}", "{{instance}} {{directory}}")),
        graph(
            "Records kept",
            "short",
            (
                f"topk(10, sum by (topic) (yak_partition_high_watermark{{{TOPICS}}} - yak_partition_log_start_offset{{{TOPICS}}}))",
                "{{topic}}",
            ),
            what="Over all replicas.",
        ),
    ]


def redis() -> list[dict[str, Any]]:
    """The metadata store."""
    return [
        graph("Redis answers", "short", (f"yak_store_connected{{{BROKERS}}}", "{{instance}}")),
        graph(
            "Time of a call",
            "s",
            (quantile(0.5, "yak_store_call_seconds", "instance"), "{{instance}} p50"),
            (quantile(0.99, "yak_store_call_seconds", "instance"), "{{instance}} p99"),
        ),
        graph(
            "Away",
            "s",
            (f"yak_store_outage_current_seconds{{{BROKERS}}}", "{{instance}} by now"),
            (f"increase(yak_store_outage_seconds_total{{{BROKERS}}}[1h])", "{{instance}} in an hour"),
        ),
        graph(
            "Metrics left out",
            "short",
            (f"max by (what) (yak_metrics_truncated{{{BROKERS}}})", "{{what}}"),
            what="Past the bounds on labels; sums over all are right all the same.",
        ),
    ]


def quorum() -> list[dict[str, Any]]:
    """The metadata quorum of brokers without Redis; brokers that have none show nothing."""
    return [
        graph(
            "Leader and its epoch",
            "short",
            (f"max(yak_quorum_leader_id{{{BROKERS}}})", "leader"),
            (f"max(yak_quorum_epoch{{{BROKERS}}})", "epoch"),
            (f"max(yak_quorum_voters{{{BROKERS}}})", "voters"),
        ),
        graph(
            "Offsets behind the leader",
            "short",
            (f"max by (replica) (yak_quorum_replica_lag_offsets{{{BROKERS}}})", "node {{replica}}"),
            what="Of voters and observers, as the leader knows them.",
        ),
        graph(
            "Time to commit a change",
            "s",
            (quantile(0.5, "yak_quorum_commit_seconds", ""), "p50"),
            (quantile(0.99, "yak_quorum_commit_seconds", ""), "p99"),
        ),
        graph(
            "Changes and elections",
            "short",
            (rate("yak_quorum_commands_total", "instance"), "{{instance}} changes a second"),
            (f"increase(yak_quorum_elections_total{{{BROKERS}}}[1h])", "{{instance}} elections in an hour"),
        ),
    ]


def laid_out() -> list[dict[str, Any]]:
    """All panels, row by row, each in its place."""
    panels: list[dict[str, Any]] = []
    ids = itertools.count(1)
    y = 0
    for title, made, width, height in (
        ("At a glance", at_a_glance(), 3, 4),
        ("Throughput", throughput(), 12, 8),
        ("Requests", requests(), 12, 8),
        ("Replication and elections", replication(), 12, 8),
        ("Consumer groups", groups(), 12, 8),
        ("Brokers", broker(), 12, 8),
        ("Logs and disks", storage(), 12, 8),
        ("Redis, and these metrics", redis(), 12, 8),
        ("Metadata quorum", quorum(), 12, 8),
    ):
        panels.append(
            {
                "id": next(ids),
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
                "panels": [],
            }
        )
        y += 1
        for place, panel in enumerate(made):
            x = place * width % WIDTH
            row = place * width // WIDTH * height
            grid = {"x": x, "y": y + row, "w": width, "h": height}
            panels.append({"id": next(ids), "datasource": SOURCE, "gridPos": grid, **panel})
        y += -(-len(made) * width // WIDTH) * height
    return panels


def dashboard() -> dict[str, Any]:
    """All of it."""
    return {
        "uid": "yak-cluster",
        "title": "YAK",
        "tags": ["yak", "kafka"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Data source",
                    "type": "datasource",
                    "query": "prometheus",
                    "refresh": 1,
                    "multi": False,
                    "includeAll": False,
                    "current": {},
                    "options": [],
                },
                variable("job", "Cluster", "label_values(yak_build_info, job)", multi=False),
                variable("instance", "Broker", 'label_values(yak_build_info{job="$job"}, instance)', multi=True),
                variable("topic", "Topic", 'label_values(yak_topic_in_bytes_total{job="$job"}, topic)', multi=True),
            ]
        },
        "panels": laid_out(),
    }


def text() -> str:
    """The file."""
    return json.dumps(dashboard(), indent=1) + "\n"


def main(arguments: list[str]) -> int:
    """Write it, or compare."""
    if "--check" in arguments:
        return int(PATH.read_text(encoding="utf-8") != text())
    PATH.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
