"""Delivery statistics in lines, and a CSV file's first rows."""

from yak.client.produce import Acknowledged, Failed
from yak.errors import YakError
from yak.tui.formatter import Formatter
from yak.tui.produce.files import CsvPreview, FileProgress, PreviewRow
from yak.tui.produce.run import DeliveryStatistics
from yak.tui.rows.delivery import (
    PREVIEW_COLUMNS,
    check_line,
    csv_title,
    preview_rows,
    statistics_lines,
    statistics_title,
    upload_lines,
)

FMT = Formatter(is_ascii=True)


def text_of(lines):
    return ["  ".join(cell.text.strip() for cell in line if cell.text.strip()) for line in lines]


def test_before_anything_is_sent_it_says_what_will_stand_there():
    assert statistics_title(None, FMT) == "Sent"
    assert "Nothing sent yet" in text_of(statistics_lines(None, FMT, 74))[0]


def test_statistics_of_one_record_have_offset_and_latency():
    stats = DeliveryStatistics(
        "done",
        sent=1,
        acknowledged=1,
        few=(Acknowledged(0, "t", 2, 1234),),
        elapsed_ms=9,
        p50_ms=8,
        p99_ms=8,
        max_ms=8.14,
    )
    assert statistics_title(stats, FMT) == "Sent [ok] done in 9 ms"
    assert text_of(statistics_lines(stats, FMT, 74)) == [
        "sent 1  acknowledged 1  waiting 0  failed 0",
        "latency 8.1 ms",
        "at t-2 offset 1 234",
    ]


def test_statistics_with_acks_0_have_no_offset():
    stats = DeliveryStatistics("done", sent=1, acknowledged=1, few=(Acknowledged(0, "t", 2, -1),))
    assert "offset unknown (acks=0)" in text_of(statistics_lines(stats, FMT, 74))[-1]


def test_many_messages_have_rates_latencies_and_reasons():
    failure = Failed(3, YakError("timed-out", "x"), "too late")
    stats = DeliveryStatistics(
        "done", sent=12_000, acknowledged=11_995, failed=5, unknown=2, reasons=(("too late", 4), ("too large", 1)),
        rate=840, mean_rate=1200, p50_ms=1, p99_ms=20, max_ms=1500, rates=(1.0, 2.0), latencies_ms=(3.0, 4.0),
        first_failure=failure, elapsed_ms=61_000,
    )  # fmt: skip
    assert statistics_title(stats, FMT) == "Sent [!] done, not all written, in 1 min 1 s"
    assert text_of(statistics_lines(stats, FMT, 74)) == [
        "sent 12 000  acknowledged 11 995  waiting 0  failed 5  (2 unknown)",
        "rate 840/s  mean 1.2k/s  2 max 2",
        "latency p50 1.0 ms  p99 20.0 ms  max 1.5 s  4 max 4",
        "[x] 4 x too late",
        "[x] 1 x too large",
        "unknown: they may be written; sending them again may double them",
    ]
    narrow = statistics_lines(stats, FMT, 42)
    assert all(sum(len(cell.text) + 1 for cell in line) <= 66 for line in narrow)
    assert text_of(narrow)[:2] == ["sent 12 000  acknowledged 11 995", "waiting 0  failed 5  (2 unknown)"]


def test_a_run_that_could_not_start_says_why():
    stats = DeliveryStatistics("failed", why="no broker answers")
    assert text_of(statistics_lines(stats, FMT, 74))[-1] == "[x] no broker answers"


def uploaded(state="sending", why="", **more):
    stats = DeliveryStatistics(
        state, why, sent=8_300, acknowledged=8_210, waiting=90, rate=4_200, p50_ms=2, p99_ms=9, max_ms=12
    )
    progress = FileProgress(settled=8_213, **more)
    return stats, progress


def test_an_upload_has_a_bar_rows_a_rate_and_the_time_that_is_left():
    stats, progress = uploaded(rejected=3)
    lines = text_of(upload_lines(stats, progress, 12_400, "o.csv.rejected.csv", FMT, 74))
    assert lines[0].endswith("8 213/12 400 rows  66%  4.2k/s  ETA 1 s")
    assert 0.6 < lines[0].count("#") / (lines[0].count("#") + lines[0].split("  ")[0].count(".")) < 0.75
    assert lines[1] == "sent 8 300  acknowledged 8 210  waiting 90  3 bad -> o.csv.rejected.csv"
    assert lines[2].startswith("latency p50 2.0 ms")
    assert all(len(line) <= 74 for line in lines)


def test_an_upload_whose_rows_are_not_counted_yet_has_no_time():
    stats, progress = uploaded()
    first = text_of(upload_lines(stats, progress, None, "x", FMT, 74))[0]
    assert "8 213 rows  0%" in first
    assert "ETA" not in first


def test_upload_that_ended_early_displays_where_to_resume_even_in_two_lines():
    stats, progress = uploaded("failed", "timed out")
    lines = text_of(upload_lines(stats, progress, 12_400, "x", FMT, 74, 2))
    assert len(lines) == 2
    assert lines[1] == "[x] timed out: S goes on after row 8 213"
    stats, progress = uploaded("stopped")
    assert text_of(upload_lines(stats, progress, 12_400, "x", FMT, 74))[1] == "[||] stopped: S goes on after row 8 213"


def test_an_upload_that_is_done_is_full_whatever_was_estimated():
    stats, progress = uploaded("done")
    assert "100%" in text_of(upload_lines(stats, progress, 99_999, "x", FMT, 74))[0]


ROWS = (
    PreviewRow(2, "u1", '{"a":"1"}', (("s", "web"), ("n", None)), 0, "good"),
    PreviewRow(3, None, None, (), None, "warn", "no key: any partition"),
    PreviewRow(4, None, "u3", (), None, "bad", "1 column, not 3"),
)


def preview(**more):
    return CsvPreview("/d/o.csv", 12_700, "utf-8", ",", ("id", "a", "s"), **more)


def test_preview_has_a_row_for_each_csv_row_with_a_sign_and_a_text():
    rows = preview_rows(preview(rows=ROWS), FMT)
    assert [[cell.text for cell in row.cells] for row in rows] == [
        ["2", "u1", '{"a":"1"}', "s=web n=-", "0", "[ok] yes"],
        ["3", "-", "-", "-", "-", "[!] no key: any partition"],
        ["4", "-", "u3", "-", "-", "[x] 1 column, not 3"],
    ]
    assert all(len(row.cells) == len(PREVIEW_COLUMNS) for row in rows)


def test_the_file_in_a_line():
    assert csv_title(preview(), 12_400, FMT) == '12 400 rows, 12.4 KiB, delimiter ",", utf-8'
    assert csv_title(preview(), None, FMT).startswith("counting rows, ")


def test_check_line_reports_the_result_of_the_first_rows_of_the_file():
    assert check_line(preview(), FMT)[0].text == "[!] there is no row behind the header"
    assert check_line(preview(checked=1000), FMT)[0].text == "[ok] the first 1 000 rows can be sent"
    bad = check_line(preview(checked=1000, bad=2, mistakes=((17, "2 columns, not 3"),)), FMT)[0]
    assert (bad.text, bad.tone) == ("[!] 2 of the first 1 000 rows cannot be sent, line 17: 2 columns, not 3", "warn")
    assert "two columns are called id" in check_line(preview(doubled=("id",)), FMT)[0].text
