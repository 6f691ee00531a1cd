"""One partition's replicas: roles, epochs, ISR, high watermark, a follower's log, and the limits on what followers fetch.

Other packages call `partition.Partition`, `partition_events.PartitionEvent`, `isr.IsrChanges`, `isr.may_join`, `damaged_replicas.DamagedReplicas`,
`truncation.Truncations`, `throttle.Throttle`, `recent_reads.RecentReads`, `replica_bound.ReplicaBound` and
`traffic.Traffic`. This package imports nothing of `yak.broker`.
"""
