"""CSV has the names of JSON: a script that goes from one to the other finds each field under its name."""

import csv
import io
import json
from typing import Any

from support.waiting import wait_until

ROWS = (
    "topics list",
    "topics describe t",
    "topics trim t --before 0 --dry-run",
    "brokers list",
    "brokers describe 1",
    "brokers config 1",
    "brokers watch -n 1",
    "cluster",
    "quorum describe",
    "groups list",
    "groups describe g",
    "groups describe g --state",
    "groups watch -n 1",
    "groups members g",
    "groups reset idle -t t --to-earliest",
    "metadata log",
    "up --status",
    "doctor",
    "isr",
    "consume t --from-beginning --exit",
    "produce t -m a --dry-run",
    "spark jobs",
    "chaos faults",
    "config show",
    "help exit-codes",
    "bench produce -t bench --msgs 10 --warm-up 0s",
)
"""Commands whose rows depend on the format, and some others.

Settings are not here (`version`, `context show`, `serve --dry-run`): they are a column in CSV, and the keys of JSON.
"""
OF_ONE_REPLICA = {"replica", "log_end_offset", "lag", "state"}
"""`isr` has a row for each replica in CSV, and in JSON one for each partition."""


def names_in(value: Any) -> set[str]:
    """All keys of a document."""
    if isinstance(value, list):
        return set().union(*map(names_in, value))
    return set(value).union(*map(names_in, value.values())) if isinstance(value, dict) else set()


def csv_names(text: str) -> set[str]:
    (header, *rows) = csv.reader(io.StringIO(text))
    assert all(len(row) == len(header) for row in rows)
    return set(header)


def json_names(text: str) -> set[str]:
    """Of a document, or of lines with one document each."""
    return set().union(*(names_in(json.loads(line)) for line in text.splitlines()))


def test_each_column_of_csv_is_a_key_of_json(yak: Any) -> None:
    up = yak.run("up", "-d", "--metadata", "raft", "--port", "0", "-o", "json")
    assert up.code == 0, up.err
    bootstrap = ("-b", up.json["bootstrap"])
    assert yak.run("topics", "create", "t", *bootstrap).code == 0
    assert yak.run("produce", "t", "-m", "a", *bootstrap).code == 0
    assert yak.run("consume", "t", "-g", "idle", "--from-beginning", "--exit", *bootstrap).code == 0
    yak.start("consume", "t", "-g", "g", "--from-beginning", *bootstrap)
    members = ("groups", "members", "g", "-o", "json", *bootstrap)
    wait_until(lambda: (ran := yak.run(*members)).code == 0 and ran.json and ran.json[0]["assignment"], "a member", 30)
    wrong: dict[str, object] = {}
    for command in ROWS:
        words = (*command.split(), *bootstrap)
        as_csv, as_json = yak.run(*words, "-o", "csv"), yak.run(*words, "-o", "json")
        if as_csv.code not in (0, 4) or not as_csv.out:
            wrong[command] = as_csv
        elif (
            unknown := csv_names(as_csv.out) - json_names(as_json.out) - (OF_ONE_REPLICA if command == "isr" else set())
        ):
            wrong[command] = unknown
    assert wrong == {}, "\n".join(f"{command}: {found}" for command, found in wrong.items())
