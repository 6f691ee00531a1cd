"""Errors pass between processes: `multiprocessing`, process pools and Spark pickle them."""

import copy
import pickle

import pytest

from yak.client.api.failures import SendFailed
from yak.errors import UsageError, YakError
from yak.spark.columnar.schema import DataLoss, UnsupportedSetting
from yak.spark.source.errors import bad_option


def _send_failed() -> SendFailed:
    error = SendFailed("timed-out", "not acknowledged", why="no answer", try_=("yak doctor",))
    error.written, error.kafka_code = "no", 7
    error.add_note("while testing")
    return error


@pytest.mark.parametrize(
    "error",
    [
        UsageError("usage", "no"),
        _send_failed(),
        bad_option("topic", 5, "it is no text", "a text"),
        UnsupportedSetting("debug", "it logs"),
        DataLoss("deleted", "orders", 1, 7, None),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("through", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy])
def test_error_that_was_pickled_or_copied_is_the_same(error: YakError, through) -> None:
    other = through(error)
    assert type(other) is type(error)
    assert (str(other), other.args, vars(other)) == (str(error), error.args, vars(error))
    assert other.__notes__ == error.__notes__
