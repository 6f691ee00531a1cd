"""The columnar reader: a range of a partition's offsets as Arrow batches, with no Python code run per record.

What to import is in `schema.py` (what is asked, what comes out, what can go wrong) and `read.py` (`read`). Nothing here
knows Spark: it needs numpy, pyarrow and a socket, so that an executor can run it with `pip install yak-broker[spark]`.
"""
