"""The row of the metadata store in the cluster's health."""

import pytest

from yak.tui.formatter import Formatter
from yak.tui.rows.cluster import health_rows
from yak.tui.state.picture import UNKNOWN_STORE, Picture


def store_row(state, *, lost_since_ms=None, **node):
    picture = Picture()
    picture.store_state, picture.store_lost_since_ms = state, lost_since_ms
    if node:
        own = {"role": "follower", "leader_id": 2, "epoch": 4, "voters": [1, 2, 3], "caught_up": None}
        picture._quorum_nodes[1] = own | node
    row = health_rows(picture, Formatter(), 5_000)[-1]
    return tuple(cell.text for cell in row.cells), row.cells[0].tone


@pytest.mark.parametrize(
    ("given", "text", "tone"),
    [
        ({"state": UNKNOWN_STORE}, ("– metadata", "not visible without YAK's HTTP"), "good"),
        ({"state": "connected"}, ("✓ redis", "connected"), "good"),
        ({"state": "lost", "lost_since_ms": 2_000}, ("▲ redis", "lost for 3.0 s: data flows, changes wait"), "warn"),
        ({"state": "connected", "epoch": 4}, ("✓ quorum", "leader 2, 3 voters, epoch 4"), "good"),
        (
            {"state": "connected", "role": "leader", "caught_up": 3},
            ("✓ quorum", "leader 2, voters 3/3, epoch 4"),
            "good",
        ),
        (
            {"state": "connected", "role": "leader", "caught_up": 2},
            ("▲ quorum", "leader 2, voters 2/3, epoch 4"),
            "warn",
        ),
        (
            {"state": "lost", "lost_since_ms": 2_000, "leader_id": None},
            ("▲ quorum", "no leader for 3.0 s: data flows, changes wait"),
            "warn",
        ),
    ],
)
def test_metadata_store_is_redis_or_the_quorum(given, text, tone):
    assert store_row(**given) == (text, tone)
