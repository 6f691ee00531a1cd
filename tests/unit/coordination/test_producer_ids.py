"""Producer ids come in blocks that are asked for before they are needed."""

import datetime as dt

from kio.schema.errors import ErrorCode

from tests.rig import Rig
from yak.coordination.producer_ids import REFILL_BELOW


def take(rig: Rig):
    return rig.ask(22, 1, transactional_id=None, transaction_timeout=dt.timedelta(seconds=60))


def test_a_producer_starts_while_the_store_is_away():
    rig = Rig()
    rig.run_for(500)
    rig.node.store_line.block()
    rig.run_for(500)
    answer = take(rig)
    assert answer.error_code == ErrorCode.none
    assert answer.producer_id >= 0


def test_ids_are_never_given_twice_and_the_next_block_is_there_in_time():
    rig = Rig()
    given = [take(rig).producer_id for _ in range(1_000 - REFILL_BELOW + 2)]
    rig.run_for(500)
    rig.node.store_line.block()
    given += [take(rig).producer_id for _ in range(1_000)]
    assert len(set(given)) == len(given)
    assert min(given) >= 0


def test_without_the_store_and_without_ids_the_refusal_is_one_that_every_client_repeats():
    """REQUEST_TIMED_OUT ends a Java producer before 3.4 (KAFKA-14417)."""
    rig = Rig()
    rig.run_for(500)
    rig.node.store_line.block()
    rig.run_for(500)
    codes = [take(rig).error_code for _ in range(1_001)]
    assert codes[:1_000] == [ErrorCode.none] * 1_000
    assert codes[1_000] == ErrorCode.coordinator_load_in_progress
