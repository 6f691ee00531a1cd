"""One partition's replicas: roles, epochs, ISR, high watermark, and the limits on what followers fetch.

Other packages call `partition.Partition`, `isr.may_join`, `replica_bound.ReplicaBound`, `throttle.Throttle`,
`recent_reads.RecentReads` and `traffic.Traffic`. This package imports nothing of `yak.broker`.
"""
