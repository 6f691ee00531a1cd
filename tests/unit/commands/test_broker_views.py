"""The brokers of one machine as one line of `yak brokers`."""

from typing import Any

from yak.commands.broker_views import fold, with_machines


def row(node_id: int, rack: str | None, state: str = "ACTIVE", **more: Any) -> dict[str, Any]:
    is_up = state == "ACTIVE"
    return {
        "id": node_id,
        "address": f"h{node_id // 10}:{9092 + node_id}" if is_up else None,
        "rack": rack,
        "role": "leader" if is_up else None,
        "state": state,
        "controller": node_id == 12,
        "leaders": 2,
        "leaders_skew_percent": 0,
        "replicas": 3,
        "under_replicated": 1,
    } | more


ROWS = [row(11, "machine:a"), row(12, "machine:a"), row(21, "machine:b"), row(31, "az1"), row(32, "az1"), row(41, None)]


def test_brokers_of_a_machine_fold_to_one_line_with_their_sums() -> None:
    first, *rest = fold(ROWS)
    assert (first["id"], first["address"], first["state"], first["controller"]) == ("11,12", "h1", "ACTIVE", True)
    assert (first["leaders"], first["replicas"], first["under_replicated"]) == (4, 6, 2)
    assert rest == ROWS[2:], "a machine with one broker, other racks and no rack stay"


def test_machine_with_a_broker_that_is_down_says_how_many_are_up() -> None:
    [found] = fold([row(11, "machine:a"), row(12, "machine:a", "FENCED", size_bytes=None)])
    assert (found["state"], found["role"]) == ("1 of 2 ACTIVE", None)
    [found] = fold([row(11, "machine:a", size_bytes=5), row(12, "machine:a", size_bytes=None)])
    assert found["size_bytes"] == 5


def test_json_has_each_broker_with_the_line_of_its_machine() -> None:
    found = with_machines(ROWS)
    assert [each["id"] for each in found] == [each["id"] for each in ROWS]
    assert found[1]["machine"]["id"] == "11,12"
    assert (found[2]["machine"]["leaders"], found[3]["machine"], found[5]["machine"]) == (2, None, None)
