"""A pytest plugin that gives a test a real Kafka cluster, started by the executable of yak-broker-bin.

plugin, fixture_options, shape, faults   copied from `yak.testing` when the wheel is built
session                    the clusters, in the place of `yak.testing.session`
"""
