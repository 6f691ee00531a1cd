"""Takes two costs off the tasks that follow in one of PySpark's worker processes: about half of what a small task costs there.

PySpark (4.3: `daemon.py`, `worker_util.setup_spark_files`) does two things around every task, for code that may have changed.
`gc.collect()` walks every object of every module that is loaded: 25 ms with pyarrow. `importlib.invalidate_caches()` reads
the directory of each zip on the path anew: 15 ms for pyspark.zip, with any Python before 3.12. Neither finds anything.
"""

import gc
import sys
import zipimport
from typing import Final

_ZIPPED: Final = ("pyspark", "py4j", "yak")
"""Packages whose zip stays as it is while the process lives."""
_state = {"is_settled": False}


def settle() -> None:
    """After a task, when all that a task needs is loaded. Does nothing outside of PySpark's workers."""
    main = sys.modules["__main__"].__spec__
    if main is None or main.name != "pyspark.daemon":
        return
    for name in _ZIPPED:
        module = sys.modules.get(name)
        loader = module.__spec__.loader if module is not None and module.__spec__ is not None else None
        if isinstance(loader, zipimport.zipimporter):
            # Gone from here, it is not asked to read its directory; an import makes it again, from zipimport's own copy.
            sys.path_importer_cache.pop(loader.archive, None)
    if not _state["is_settled"]:
        _state["is_settled"] = True
        gc.collect()
        gc.freeze()
