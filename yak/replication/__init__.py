"""One partition's replicas: roles, epochs, ISR, high watermark, fetch sessions; how a follower fetches and truncates; flushes.

Other packages call `partition.Partition`, `partition_events.PartitionEvent`, `isr.IsrChanges`, `isr.IsrExits`,
`fetch_sessions.ConsumerSessions`, `fetch_sessions.FollowerSessions`, `log_append_info.LogAppendInfo`,
`damaged_replicas.DamagedReplicas`, `flusher.Flusher`, `replica_fetchers.ReplicaFetchers`, `follower_logs.FollowerLogs`,
`truncation.Truncations`, `log_failures.LogFailures` and its kinds of writes, `throttle.Throttle`,
`recent_reads.RecentReads`, `replica_bound.ReplicaBound`, `traffic.Traffic` and the functions of `read_replicas`. This
package imports nothing of `yak.broker`.
"""
