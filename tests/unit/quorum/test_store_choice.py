"""Which of its two metadata stores a broker calls."""

from types import SimpleNamespace

from yak.core.events import StoreReplied
from yak.metadata_store.state import StoreState
from yak.ports.metadata_store import StoreRequest
from yak.quorum.store_choice import StoreChoice


class Calls:
    """A store that only counts."""

    def __init__(self) -> None:
        self.scripts: list[str] = []

    def call(self, _nonce: int, request: StoreRequest) -> None:
        self.scripts.append(request.script)


def choice(state: str | None) -> tuple[StoreChoice, Calls, Calls, list[StoreReplied]]:
    redis, quorum, events = Calls(), Calls(), []
    made = StoreChoice(SimpleNamespace(), redis, quorum, events.append)
    content = StoreState(cluster={} if state is None else {"state": state})
    made.attach(SimpleNamespace(machine=SimpleNamespace(state=content)))
    return made, redis, quorum, events


def test_broker_calls_redis_until_the_quorum_has_the_metadata():
    for state in (None, "IMPORTED", "MOVED"):
        made, redis, quorum, _ = choice(state)
        made.call(1, StoreRequest("verify"))
        assert (redis.scripts, quorum.scripts) == (["verify"], [])
    for state in ("LIVE", "EXPORTED"):
        made, redis, quorum, _ = choice(state)
        made.call(1, StoreRequest("verify"))
        assert (redis.scripts, quorum.scripts) == ([], ["verify"])


def test_empty_redis_is_offered_no_copy_since_it_may_be_the_target_of_a_move():
    made, redis, _, events = choice(None)
    made.call(7, StoreRequest("seed_offer"))
    assert redis.scripts == []
    assert [(event.nonce, event.outcome.code) for event in events] == [(7, "BAD_REQUEST")]
