"""Consumer groups: their members, their committed offsets, and the records that store both.

This package knows no broker, clock or log. A coordinator (`yak.coordination`) passes in requests and the time. It
writes the returned records to its partition of `__consumer_offsets`, and sends the responses once those records are
committed.
"""
