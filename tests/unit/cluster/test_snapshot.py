"""Snapshots: an image and a restored store have what a snapshot keeps, and one of an earlier version lacks it."""

from dataclasses import replace

import pytest

from yak.cluster.image import Image
from yak.cluster.records import Kind
from yak.cluster.snapshot import read_snapshot, write_snapshot
from yak.metadata_store.restore import _write_configs
from yak.metadata_store.state import StoreState

KEPT = {
    "acls": ("acl", {'TOPIC,LITERAL,a"b': {"ALLOW,READ,*,User:ann": ""}, "TOPIC,LITERAL,paid": {"DENY,READ,*,User:x": ""}}),
    "quotas": ("quota", {"user=ann": {"producer_byte_rate": "1.0"}}),
    "user_credentials": ("user", {"ann": {"SCRAM-SHA-256": "keys"}}),
    "delegation_tokens": ("token", {"id": {"owner": "User:ann"}}),
    "group_configs": ("group", {"a": {"consumer.session.timeout.ms": "50000"}, "b": {"streams.num.standby.replicas": "1"}}),
}  # fmt: skip
"""By field of the image: its prefix in the store, and some content."""


@pytest.mark.parametrize("field", KEPT)
def test_image_and_a_restored_store_have_what_a_snapshot_keeps(field):
    prefix, content = KEPT[field]
    image, state = Image(**{field: content}), StoreState()
    record = write_snapshot(image)
    assert record.kind == Kind.SNAPSHOT
    assert read_snapshot(record) == image
    _write_configs(state, record.payload)
    assert state.configs == {f"{prefix}:{name}": configs for name, configs in content.items()}


@pytest.mark.parametrize("field", KEPT)
def test_snapshot_of_an_earlier_version_has_none_of_a_later_field(field):
    record = write_snapshot(Image(**{field: KEPT[field][1]}))
    older = {name: value for name, value in record.payload.items() if name != field}
    assert getattr(read_snapshot(replace(record, payload=older)), field) == {}
    if field != "group_configs":  # older than the restore of a store
        state = StoreState()
        _write_configs(state, older)
        assert state.configs == {}
