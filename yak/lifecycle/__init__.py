"""Which brokers live, and how this broker learns it.

Other packages call `expected_followers.ExpectedFollowers`, `failure_watch.FailureWatch`, `failure_watch.SuspectedBrokers`,
`liveness.RecentlyFenced` and the functions of `liveness`. This package imports nothing of `yak.broker`.
"""
