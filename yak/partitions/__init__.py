"""The partitions that this broker has a replica of: their logs are created, appended to, compacted, moved, taken
offline, repaired and removed.

Other packages call `local_replicas.LocalReplicas`, `metadata_loader.MetadataLoader`, `store_outage.StoreOutage`,
`leader_appends.Leadership`, `leader_appends.LeaderAppends`, `leader_appends.TransactionalAppends`,
`transaction_markers.TransactionMarkers`, `moved_high_watermarks.MovedHighWatermarks`,
`maintenance.Maintenance`, `log_cleaner.LogCleaner`, `log_moves.LogMoves`, `record_deletions.RecordDeletions` and
`offline_replicas.OfflineReplicas`. This package imports nothing of `yak.broker` and `yak.coordination`.
"""
