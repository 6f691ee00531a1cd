"""docs/http.md says the bounds that the broker has."""

from pathlib import Path

import pytest

from yak.server.http.context import HttpLimits

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
LIMITS = HttpLimits()


@pytest.mark.parametrize(
    "words",
    [
        f"| {LIMITS.connections_max}, {LIMITS.connections_per_ip_max};",
        f"| {LIMITS.header_bytes_max // 1024} KiB, whole within {LIMITS.head_deadline_ms // 1000} s",
        f"| {LIMITS.body_bytes_max >> 20} MiB, {LIMITS.json_depth_max} levels deep, within {LIMITS.body_deadline_ms // 1000} s",
        f"| {LIMITS.body_in_flight_bytes_max >> 20} MiB (503",
        f"| {LIMITS.send_deadline_ms // 1000} s, then it is dropped",
        f"| {LIMITS.idle_ms_max // 1000} s |",
        f"gives those under way up to {LIMITS.graceful_stop_ms // 1000} s",
    ],
)
def test_a_bound_is_the_brokers(words: str) -> None:
    assert words in PAGE.partition("\n## Bounds\n")[2].partition("\n## ")[0]
