import pytest

from yak.client.inputs import CsvMapping
from yak.errors import UsageError, YakError
from yak.tui.produce.csv_look import look_at


@pytest.fixture
def file(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "o.csv"
        path.write_bytes(text.encode(encoding))
        return str(path)

    return write


def test_a_first_look_finds_columns_delimiter_and_encoding(file):
    look = look_at(file("id;größe;id\n1;2;3\n", "cp1252"))
    assert (look.encoding, look.delimiter, look.columns) == ("cp1252", ";", ("id", "größe", "id"))
    assert look.doubled == ("id",)
    assert look.size_bytes == 18
    assert look.rows == ()


def test_the_first_rows_are_shown_as_they_would_be_sent_with_what_is_odd_about_them(file):
    text = "id,total,src,part\nu1,12,web,0\n,13,web,\n,14,app,1\nu4,15\nu5,16,web,9\nu6,17,web,x\n"
    mapping = CsvMapping(key="id", headers={"src": "source"}, partition="part")
    look = look_at(file(text), mapping, partitions=3)
    first = look.rows[0]
    assert (first.line, first.key, first.value, first.partition) == (2, "u1", '{"total":"12"}', 0)
    assert first.headers == (("source", "web"),)
    assert [(row.verdict, row.why) for row in look.rows[:5]] == [
        ("ok", ""),
        ("warn", "no key: any partition"),
        ("warn", "no key"),
        ("bad", "2 columns, not 4"),
        ("bad", "no partition 9: there are 3, from 0 on"),
    ]
    assert (look.checked, look.bad) == (6, 3)
    assert look.mistakes[2] == (7, 'partition "x" is not a number')


def test_chosen_columns_and_a_tombstone(file):
    path = file("id,a,b,c\nu1,1,2,3\nu2,,,\n")
    look = look_at(path, CsvMapping(key="id", value="json:c,a"))
    assert look.rows[0].value == '{"c":"3","a":"1"}'
    look = look_at(path, CsvMapping(key="id", value="a", null_value=""))
    assert (look.rows[1].value, look.rows[1].verdict) == (None, "warn")
    assert "tombstone" in look.rows[1].why


def test_what_cannot_be_looked_at_says_why(file, tmp_path):
    path = file("id,a\n")
    with pytest.raises(UsageError, match='column "z"'):
        look_at(path, CsvMapping(value="json:z"))
    with pytest.raises(UsageError) as caught:
        look_at(file(""))
    assert caught.value.code == "csv-empty"
    with pytest.raises(YakError) as caught:
        look_at(str(tmp_path / "none.csv"))
    assert caught.value.code == "file"
    with pytest.raises(YakError) as caught:
        look_at(path, encoding="klingon")
    assert caught.value.code == "bad-encoding"
