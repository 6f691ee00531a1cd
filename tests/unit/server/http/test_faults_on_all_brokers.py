"""A fault for all brokers over HTTP: what becomes of it when one of them does not answer or refuses it."""

import json
from types import SimpleNamespace

import pytest

from yak.errors import ErrorCode
from yak.faults import COMMAND
from yak.server.http.problems import Problem
from yak.server.http.routes.faults import add_to_all

RULE = {"id": "f00d", "fault": "freeze_isr"}
NO_ANSWER = Problem(504, "no-answer", "node 2 did not answer within 10 s", "try again")


class Brokers:
    """Keeps the rules of each broker. A `silent` one carries out what it gets and never answers."""

    def __init__(self, *, silent=(), deaf_to_clear=(), without_faults=()):
        self.rules = {1: set(), 2: set(), 3: set()}
        self._silent, self._deaf, self._off = silent, deaf_to_clear, without_faults

    async def ask(self, _key, fields, *, node_id, timeout_s):
        assert timeout_s > 0
        wanted = json.loads(fields["request_data"].removeprefix(COMMAND))
        if node_id in self._off:
            error = {"code": "faults-off", "message": "off", "why": ""}
            return SimpleNamespace(
                error_code=ErrorCode.invalid_request, response_data=json.dumps({"error": error}).encode()
            )
        if wanted["do"] == "add":
            self.rules[node_id].add(wanted["rule"]["id"])
        elif node_id in self._deaf:
            raise NO_ANSWER
        else:
            self.rules[node_id].discard(wanted["id"])
        if node_id in self._silent:
            raise Problem(504, "no-answer", "node 2 did not answer within 10 s", "try again")
        return SimpleNamespace(error_code=ErrorCode.none, response_data=json.dumps({"result": []}).encode())


async def refused(brokers):
    with pytest.raises(Problem) as error:
        await add_to_all(SimpleNamespace(broker_client=brokers), RULE, [1, 2, 3])
    return error.value


async def test_fault_is_added_to_all_brokers():
    brokers = Brokers()
    await add_to_all(SimpleNamespace(broker_client=brokers), RULE, [1, 2, 3])
    assert brokers.rules == {1: {"f00d"}, 2: {"f00d"}, 3: {"f00d"}}


async def test_fault_is_taken_back_from_a_broker_that_did_not_answer_which_the_hint_names():
    brokers = Brokers(silent=[2])
    problem = await refused(brokers)
    assert (problem.status, problem.error) == (504, "no-answer")
    assert problem.hint == "broker 2 may have it: DELETE /api/faults/f00d once all brokers answer"
    assert brokers.rules == {1: set(), 2: set(), 3: set()}


async def test_broker_that_does_not_answer_the_removal_keeps_no_other_broker_from_it():
    brokers = Brokers(silent=[3], deaf_to_clear=[1])
    problem = await refused(brokers)
    assert problem.hint == "broker 3, 1 may have it: DELETE /api/faults/f00d once all brokers answer"
    assert brokers.rules == {1: {"f00d"}, 2: set(), 3: set()}


async def test_fault_refused_by_one_broker_is_set_on_no_broker_and_has_the_refusals_hint():
    brokers = Brokers(without_faults=[3])
    problem = await refused(brokers)
    assert (problem.status, problem.error, problem.hint) == (409, "faults-off", "")
    assert brokers.rules == {1: set(), 2: set(), 3: set()}
