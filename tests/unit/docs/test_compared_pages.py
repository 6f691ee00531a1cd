"""The figures of the comparison pages are those of docs/benchmarks.md and docs/testing.md."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """The cells of each row of all tables."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def medians() -> set[tuple[str, ...]]:
    """(what, unit, YAK, Kafka) of each row of the benchmarks."""
    return {
        (*row[:2], *(re.sub(r" \(.*", "", cell) for cell in row[2:4]))
        for row in rows(text_of("benchmarks.md"))
        if row[3:]
    }


def test_every_figure_against_kafka_is_a_median_of_the_benchmarks() -> None:
    _, _, figures = text_of("compared-with-kafka.md").partition("## Figures")
    shown = [tuple(row) for row in rows(figures)[2:]]
    assert len(shown) > 8
    assert [row for row in shown if row not in medians()] == []


def test_figures_for_tests_are_those_of_the_page_about_tests() -> None:
    said = re.findall(r"(\d+) ms\b", text_of("compared-for-tests.md").partition("KIP-974")[0])
    assert len(said) == 2
    assert [figure for figure in said if f"{figure} ms" not in text_of("testing.md")] == []


def test_start_of_the_page_for_tests_is_the_median_of_the_benchmarks() -> None:
    text = " ".join(text_of("compared-for-tests.md").split())
    (said,) = re.findall(r"YAK takes ([\d.]+) s and Kafka, formatted before, ([\d.]+) s", text)
    assert ("start to first acknowledged record", "s", *said) in medians()
