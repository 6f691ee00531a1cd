"""The reasons for frozen metadata, in one line each."""

import pytest

from yak.cluster.image import Image
from yak.cluster.refusals import frozen
from yak.ports.metadata_store import StoreOutcome


def test_frozen_for_an_unknown_code_has_the_stores_message():
    outcome = StoreOutcome("BAD_REQUEST", value={"message": "no such script"})
    assert frozen(outcome, Image(), is_serving=True).startswith(
        "the metadata store refused: BAD_REQUEST no such script. Produce and fetch continue"
    )


@pytest.mark.parametrize(
    ("code", "is_serving", "meanwhile"),
    [
        ("REGRESSED", True, "Produce and fetch continue"),
        ("REGRESSED", False, "The broker does not serve before that history is back"),
        ("MOVED", False, "The broker does not serve yet"),
    ],
)
def test_frozen_says_whether_the_broker_serves_meanwhile(code, is_serving, meanwhile):
    assert frozen(StoreOutcome(code), Image(), is_serving=is_serving).endswith(f". {meanwhile}")
