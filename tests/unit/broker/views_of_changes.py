"""All texts in which a broker shows a change of the metadata."""

import json
from dataclasses import replace

from tests.rig import Rig
from yak.cluster.image import Image
from yak.cluster.snapshot import write_snapshot
from yak.ports.metadata_store import TailedRecord
from yak.views.broker_events import of_image
from yak.views.metadata_json import HIDDEN, cluster_json
from yak.views.metadata_records_json import record_json


def views_of(rig: Rig, before: Image, record: TailedRecord, name: str) -> list[str]:
    """JSON of the image and of the record, events (which have the name), configs, and log lines."""
    after = rig.node.broker.image
    assert HIDDEN in repr(record_json(record))
    _, delta = before.apply_all(each for each in rig.store.state.log if each.offset > before.offset)
    happened = list(of_image(before, after, delta))
    assert name in repr(happened)
    resources = [{"resource_type": kind, "resource_name": each} for kind, each in ((2, name), (4, "1"), (32, name))]
    return [
        json.dumps(cluster_json(after, ()), default=str),
        json.dumps(record_json(write_snapshot(after)), default=str),
        repr(happened),
        repr(record_json(record)),
        repr(record_json(replace(record, payload={**record.payload, "version": 99}))),
        repr(after),
        repr(rig.ask(32, 4, resources=resources, include_synonyms=True, include_documentation=True)),
        repr([(notice.event, notice.fields) for notice in rig.node.notices]),
    ]
