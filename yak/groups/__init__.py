"""Groups of consumers: who is in one, what it has committed, and the records that remember both.

Nothing here knows a broker, a clock or a log. A coordinator (`yak.broker.coordinator`) hands in requests and the time,
writes the records that come out to its partition of `__consumer_offsets`, and lets the answers go when they are committed.
"""
