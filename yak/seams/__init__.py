"""What the core asks of the world, as Protocols: disk, dice, and the metadata store. No code that does anything.

Time has no Protocol: it is the `now_ms` argument of `Broker.step`. The network has none either: it is the frames that
events bring and effects take away (`yak.broker.events`).
"""
