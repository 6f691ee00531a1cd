"""Lets these tests share `fake_context`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
