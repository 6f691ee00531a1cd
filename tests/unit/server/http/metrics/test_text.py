"""Our text of metrics against the parsers of prometheus-client: what was put in comes out."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from yak.plain_text import one_line
from yak.server.http.metrics.text import END_OF_OPENMETRICS, Family, Samples, in_pieces
from yak.server.latencies import BOUNDS_SECONDS, Histogram

COUNTER = Family("yak_things", "Things that were counted", "counter")
BYTES = Family("yak_thing_bytes", "Bytes of things", "counter")
GAUGE = Family("yak_level", "How high it stands", "gauge")
TIMES = Family("yak_thing_seconds", "How long a thing took", "histogram")
# Any text that UTF-8 can have: a group's id is what its members call it.
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
LABELS = st.dictionaries(st.sampled_from(["group", "topic", "api"]), TEXT, max_size=3)
NUMBERS = st.integers(0, 2**63) | st.floats(0, allow_nan=False, allow_infinity=False)


def parsed(samples: Samples, *, open_metrics: bool) -> dict[str, tuple[str, dict[tuple, float]]]:
    """Family -> (type, {(sample, labels): value}), as prometheus-client reads it."""
    text = b"".join(in_pieces(samples, open_metrics=open_metrics))
    if open_metrics:
        families = openmetrics_parser.text_string_to_metric_families((text + END_OF_OPENMETRICS).decode())
    else:
        families = parser.text_string_to_metric_families(text.decode())
    return {
        family.name: (
            family.type,
            {(each.name, frozenset(each.labels.items())): float(each.value) for each in family.samples},
        )
        for family in families
    }


def escaped_labels(labels):
    """What a scraper reads: what drives a terminal as escapes, a backslash as two."""
    return {name: one_line(text.replace("\\", "\\\\")) for name, text in labels.items()}


def unique(rows):
    return list({frozenset(labels.items()): (labels, value) for labels, value in rows}.values())


@pytest.mark.parametrize("open_metrics", [False, True])
@given(rows=st.lists(st.tuples(LABELS, NUMBERS)).map(unique))
@example(rows=[({"group": 'a"b\\n\n\\"{},=# EOF'}, 1), ({"group": "\r\u2028\x00\x85 \\"}, 2), ({"group": ""}, 3)])
def test_counters_and_gauges_are_read_as_they_were_written(open_metrics, rows):
    samples = Samples()
    samples.of(BYTES)
    for labels, value in rows:
        samples.add(COUNTER, value, **labels)
        samples.add(GAUGE, value, **labels)
    found = parsed(samples, open_metrics=open_metrics)
    expected = {frozenset(escaped_labels(labels).items()): float(value) for labels, value in rows}
    assert len(expected) == len(rows), "no two texts are one label"
    name = COUNTER.name
    if rows:
        assert found[name] == ("counter", {(f"{name}_total", labels): value for labels, value in expected.items()})
        assert found[GAUGE.name] == ("gauge", {(GAUGE.name, labels): value for labels, value in expected.items()})
    assert found[BYTES.name] == ("counter", {})


@pytest.mark.parametrize("open_metrics", [False, True])
@given(times_ns=st.lists(st.integers(0, 10**12)), labels=st.dictionaries(st.just("api"), TEXT, max_size=1))
def test_histograms_are_read_as_they_were_written(open_metrics, times_ns, labels):
    histogram = Histogram()
    for time_ns in times_ns:
        histogram.note(time_ns)
    samples = Samples()
    samples.add_histogram(TIMES, histogram, **labels)
    kind, found = parsed(samples, open_metrics=open_metrics)[TIMES.name]
    assert kind == "histogram"
    buckets = {float(dict(key)["le"]): value for (name, key), value in found.items() if name.endswith("_bucket")}
    assert buckets == {
        **{bound: sum(time_ns < bound * 1e9 for time_ns in times_ns) for bound in BOUNDS_SECONDS},
        math.inf: len(times_ns),
    }
    key = frozenset(escaped_labels(labels).items())
    assert found[f"{TIMES.name}_count", key] == len(times_ns)
    assert found[f"{TIMES.name}_sum", key] == pytest.approx(sum(times_ns) / 1e9)


@pytest.mark.parametrize("open_metrics", [False, True])
def test_metrics_text_too_long_for_one_piece_is_split_between_lines(open_metrics):
    samples = Samples()
    for number in range(5_500):
        samples.add(GAUGE, number, topic=str(number))
        samples.add(COUNTER, number, topic=str(number))
    pieces = list(in_pieces(samples, open_metrics=open_metrics))
    assert len(pieces) > 10
    assert all(piece.endswith(b"\n") for piece in pieces)
    found = parsed(samples, open_metrics=open_metrics)
    assert len(found[GAUGE.name][1]) == len(found[COUNTER.name][1]) == 5_500


def test_units_are_said_where_the_format_has_them():
    samples = Samples()
    samples.add(BYTES, 1)
    text = b"".join(in_pieces(samples, open_metrics=True)).decode()
    assert text.splitlines() == [
        "# HELP yak_thing_bytes Bytes of things",
        "# TYPE yak_thing_bytes counter",
        "# UNIT yak_thing_bytes bytes",
        "yak_thing_bytes_total 1",
    ]
    plain = b"".join(in_pieces(samples, open_metrics=False)).decode()
    assert "# UNIT" not in plain
    assert "# TYPE yak_thing_bytes_total counter" in plain
