"""Coordinators of groups and of transactions: state machines in the partitions of an internal topic.

Other packages call `runtime.CoordinatorRuntime`, `group_coordinator.GroupCoordinator` for the group APIs,
`transaction_coordinator.TransactionCoordinator` for those of transactions, `verification.Verification` for the leaders
that append transactional batches, and `producer_ids.ProducerIds`. This package sees the broker's partitions through
`coordinator_partitions.CoordinatorPartitions`; it imports nothing of `yak.broker`.
"""
