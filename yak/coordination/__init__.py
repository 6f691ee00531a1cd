"""Coordinators: state machines in the partitions of an internal topic. Groups are the first.

Other packages call `runtime.CoordinatorRuntime`, `group_coordinator.GroupCoordinator` for the group APIs, and
`producer_ids.ProducerIds`. This package sees the broker's partitions through
`coordinator_partitions.CoordinatorPartitions`; it imports nothing of `yak.broker`.
"""
