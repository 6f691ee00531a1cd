"""`yak help SLUG`: every error's slug, with its meaning, its causes, and what to try.

A test collects the slugs of the source and fails when one is missing here. Nine modules hold the texts: errors of
benchmarks, of chaos runs, of groups, of the Python API, of Spark, of the UI, of the UI in a browser, of other client
commands, and of brokers and local clusters.
"""

from yak.commands.error_explanation import Explanation
from yak.commands.error_help_bench import BENCH
from yak.commands.error_help_broker import BROKER
from yak.commands.error_help_chaos import CHAOS
from yak.commands.error_help_client import CLIENT
from yak.commands.error_help_groups import GROUPS
from yak.commands.error_help_python import PYTHON
from yak.commands.error_help_spark import SPARK
from yak.commands.error_help_ui import UI
from yak.commands.error_help_web import WEB

_ALL = (BENCH, CHAOS, CLIENT, GROUPS, PYTHON, SPARK, UI, WEB, BROKER)
EXPLANATIONS: dict[str, Explanation] = {slug: words for part in _ALL for slug, words in part.items()}
assert len(EXPLANATIONS) == sum(map(len, _ALL)), "an error is explained twice"
