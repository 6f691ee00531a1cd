"""Assignors by name: functions from members and topics to a target assignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from yak.groups.consumer.assignors.range_assignor import assign_ranges
from yak.groups.consumer.assignors.spec import AssignmentSpec
from yak.groups.consumer.assignors.uniform_assignor import assign_uniformly
from yak.groups.consumer.partitions import Partitions

Assignor: TypeAlias = Callable[[AssignmentSpec], dict[str, Partitions]]

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
"""Kafka's assignors (`group.consumer.assignors`), under Kafka's names."""
