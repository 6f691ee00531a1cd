import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from yak.client.csv_files import csv_row


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=10), min_size=1, max_size=4
    )
)
def test_a_row_is_read_back_as_it_was_line_ends_and_all(cells):
    text = csv_row(cells)
    assert list(csv.reader(io.StringIO(text + csv_row(["next"]), newline=""))) == [cells, ["next"]]
    assert text.endswith("\n")
    assert not text.endswith("\r\n") or cells[-1].endswith("\r")
