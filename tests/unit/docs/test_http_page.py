"""docs/http.md has every route, and says the bounds that the broker has."""

import re
from pathlib import Path

import pytest

from yak.server.http.context import HttpLimits
from yak.server.http.openapi import shown_path
from yak.server.http.route import Route
from yak.server.http.routes import ROUTES

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
COMMANDS = re.sub(r"\\\n\s*", "", PAGE)


def as_asked(path: str) -> str:
    """An expression for an address of that path."""
    return (
        r"http://127\.0\.0\.1:8080" + re.sub(r"\\{\w+\\}", r"[^/\\s'?]+", re.escape(shown_path(path))) + r"(?=[\s'?]|$)"
    )


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_has_a_command_or_is_named(route: Route) -> None:
    asked = re.search(as_asked(route.path), COMMANDS, re.MULTILINE)
    assert asked or f"{route.method} {shown_path(route.path)}" in PAGE


def test_the_bounds_are_those_of_the_broker() -> None:
    limits = HttpLimits()
    section = PAGE.partition("\n## Bounds\n")[2].partition("\n## ")[0]
    assert f"| {limits.connections_max}, {limits.connections_per_ip_max};" in section
    assert f"| {limits.header_bytes_max // 1024} KiB, whole within {limits.head_deadline_ms // 1000} s" in section
    assert (
        f"| {limits.body_bytes_max >> 20} MiB, {limits.json_depth_max} levels deep, within {limits.body_deadline_ms // 1000} s"
        in section
    )
    assert f"| {limits.body_in_flight_bytes_max >> 20} MiB (503" in section
    assert f"| {limits.send_deadline_ms // 1000} s, then it is dropped" in section
    assert f"| {limits.idle_ms_max // 1000} s |" in section
    assert f"gives those under way {limits.graceful_stop_ms // 1000} s" in section
