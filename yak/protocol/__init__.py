"""Bytes and messages: frames, headers, record batches, error codes, versions. No I/O."""
