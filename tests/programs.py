"""Programs of the project that are no modules of a package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load_program(path: Path) -> ModuleType:
    """The program as a module, without running its `main`."""
    spec = importlib.util.spec_from_file_location(f"program_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module
