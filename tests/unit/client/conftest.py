"""Lets these tests share `fake_brokers` and `messages`."""

import sys
from pathlib import Path

# Not this folder: its conftest.py would be taken for that of the integration tests.
sys.path.append(str(Path(__file__).parent / "support"))
