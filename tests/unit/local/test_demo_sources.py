"""The demo's data is this machine's own, and no two messages are alike."""

import csv
import itertools
import json
from pathlib import Path

from yak.local.demo.load import CSV_COLUMNS, process_samples, server_samples, write_file_list


def test_server_samples_report_cpu_and_memory_and_differ() -> None:
    first, second = itertools.islice(server_samples("here"), 2)
    assert first != second
    sample = json.loads(first)
    assert sample["host"] == "here"
    assert sample["memory_used_bytes"] > 0
    assert sample["cpu_seconds"]["user"] >= 0


def test_process_samples_are_keyed_by_pid_and_go_round() -> None:
    samples = list(itertools.islice(process_samples(), 500))
    assert len({value for _, value in samples}) == 500
    assert all(key.decode().isdigit() for key, _ in samples)


def test_the_file_list_is_a_csv_of_real_files_with_as_many_rows_as_it_says(tmp_path: Path) -> None:
    path = tmp_path / "files.csv"
    rows = write_file_list(str(path), 300)
    with path.open(newline="") as file:
        read = list(csv.DictReader(file))
    assert len(read) == rows == 300
    assert tuple(read[0]) == CSV_COLUMNS
    assert len({row["row"] for row in read}) == rows
    assert any(row["file"].endswith(".py") for row in read)
