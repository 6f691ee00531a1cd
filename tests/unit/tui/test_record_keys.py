"""The keys of messages and consumer."""

from itertools import combinations

import pytest

from yak.tui.keys import CHANGE_ACTIONS, EVERYWHERE, KEYS


def of(*scopes):
    return [key for key in KEYS.values() if key.scope in scopes or key.id in EVERYWHERE]


@pytest.mark.parametrize("scope", ["messages", "consumer"])
def test_shared_record_keys_do_not_clash_with_the_own_keys_of_a_screen(scope):
    for one, other in combinations(of("records", scope), 2):
        assert not set(one.keys.split(",")) & set(other.keys.split(",")), (one.id, other.id)


def test_no_read_action_shares_a_name_with_a_change():
    for key in of("records", "messages", "consumer"):
        action = key.action or key.id.rpartition(".")[2].replace("-", "_")
        assert key.is_change == (action in CHANGE_ACTIONS), key.id
