"""The core's ports, as Protocols: disk, random source, and the metadata store. No implementation.

Time is no port: it is the `now_ms` argument of `Broker.step`. The network is none either: events bring frames and
effects take them away (`yak.core.events`).
"""
