"""Control records of the log and of snapshots."""

import pytest

from tests.unit.quorum.conftest import voter_set
from yak.errors import ProtocolViolation
from yak.protocol.record_batch import CONTROL_BIT, read_header
from yak.protocol.record_writer import build_batch
from yak.quorum.control_records import (
    ControlType,
    leader_change,
    read_control,
    snapshot_footer,
    snapshot_header,
    voters_change,
)
from yak.quorum.voters import VoterSet


def test_leader_change_is_one_control_record():
    batch = leader_change(2, voter_set(1, 2, 3), [2, 3], 7)
    assert read_header(batch).is_control
    assert [kind for kind, _value in read_control(batch)] == [ControlType.LEADER_CHANGE]


def test_voters_change_has_the_voters():
    [(kind, value)] = read_control(voters_change(voter_set(1, 4), 7))
    assert (kind, VoterSet.decode(value)) == (ControlType.KRAFT_VOTERS, voter_set(1, 4))


def test_snapshot_begins_with_its_voters_and_ends_with_a_footer():
    kinds = [kind for kind, _value in read_control(snapshot_header(7, voter_set(1)))]
    assert kinds == [ControlType.SNAPSHOT_HEADER, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]
    assert [kind for kind, _value in read_control(snapshot_footer(7))] == [ControlType.SNAPSHOT_FOOTER]


@pytest.mark.parametrize("record", [(None, b"v"), (b"\0", b"v"), (b"\0\0\0\2", None)])
def test_control_record_without_key_or_value_is_refused(record):
    with pytest.raises(ProtocolViolation):
        read_control(build_batch([record], 1, attributes=CONTROL_BIT))
