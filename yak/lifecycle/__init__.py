"""Which brokers live, how this broker learns it, and how it works together with the metadata store.

Other packages call `broker_listeners.BrokerListeners`, `expected_followers.ExpectedFollowers`,
`failure_watch.FailureWatch`, `failure_watch.SuspectedBrokers`, `liveness.RecentlyFenced`, the functions of `liveness`,
`metadata.Metadata`, `metadata.ShellStore` and `secret_file.SecretFile`. This package imports nothing of `yak.broker`.
"""
