"""The columnar reader: a range of a partition's offsets as Arrow batches, with no Python code run per record.

Import requests, columns and errors from `schema.py`, and `read` from `read.py`. The package does not depend on Spark:
it needs numpy, pyarrow and a socket, so an executor can run it with `pip install yak-broker[spark]`.
"""
