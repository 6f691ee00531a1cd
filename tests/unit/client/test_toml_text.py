import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.client.contexts import dump_toml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PLAIN = st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT | st.floats(allow_nan=False, allow_infinity=False)
VALUES = PLAIN | st.lists(PLAIN, max_size=3)


@given(
    st.dictionaries(
        TEXT, st.recursive(VALUES, lambda inner: st.dictionaries(TEXT, inner, max_size=3), max_leaves=6), max_size=4
    )
)
def test_toml_document_reads_back_as_written(document):
    assert tomllib.loads(dump_toml(document)) == document


def test_context_file_is_formatted_as_a_person_would_write_it():
    document = {"current": "local", "contexts": {"local": {"bootstrap_servers": "127.0.0.1:9092"}}}
    assert dump_toml(document) == ('current = "local"\n\n[contexts.local]\nbootstrap_servers = "127.0.0.1:9092"\n')


def test_value_that_toml_cannot_express_is_refused():
    with pytest.raises(TypeError):
        dump_toml({"a": None})
