from yak.tui.look import Look
from yak.tui.produce.csv_look import CsvLook, PreviewRow
from yak.tui.rows.csv_preview import COLUMNS, file_words, judgement, preview_rows

LOOK = Look(is_ascii=True)
ROWS = (
    PreviewRow(2, "u1", '{"a":"1"}', (("s", "web"), ("n", None)), 0, "ok"),
    PreviewRow(3, None, None, (), None, "warn", "no key: any partition"),
    PreviewRow(4, None, "u3", (), None, "bad", "1 columns, not 3"),
)


def look(**more):
    return CsvLook("/d/o.csv", 12_700, "utf-8", ",", ("id", "a", "s"), **more)


def test_a_row_for_each_with_a_sign_and_a_word():
    rows = preview_rows(look(rows=ROWS), LOOK)
    assert [[cell.text for cell in row.cells] for row in rows] == [
        ["2", "u1", '{"a":"1"}', "s=web n=-", "0", "[ok] yes"],
        ["3", "-", "-", "-", "-", "[!] no key: any partition"],
        ["4", "-", "u3", "-", "-", "[x] 1 columns, not 3"],
    ]
    assert all(len(row.cells) == len(COLUMNS) for row in rows)


def test_the_file_in_a_line():
    assert file_words(look(), 12_400, LOOK) == '12 400 rows, 12.4 KiB, delimiter ",", utf-8'
    assert file_words(look(), None, LOOK).startswith("counting rows, ")


def test_what_the_first_rows_say_of_the_file():
    assert judgement(look(), LOOK)[0].text == "[!] there is no row behind the header"
    assert judgement(look(checked=1000), LOOK)[0].text == "[ok] the first 1 000 rows can be sent"
    bad = judgement(look(checked=1000, bad=2, mistakes=((17, "2 columns, not 3"),)), LOOK)[0]
    assert (bad.text, bad.tone) == (
        "[!] 2 of the first 1 000 rows cannot be sent, line 17: 2 columns, not 3",
        "warn",
    )
    assert "two columns are called id" in judgement(look(doubled=("id",)), LOOK)[0].text
