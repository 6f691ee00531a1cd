"""`yak help SLUG`: every error's word, with what it means, why it comes, and what to try.

A test collects the slugs that the source uses and fails when one is missing here. Two modules hold the texts: errors of
client commands, and errors of brokers and of clusters on this machine.
"""

from yak.commands.error_explanation import Explanation
from yak.commands.error_help_broker import BROKER
from yak.commands.error_help_client import CLIENT

assert not BROKER.keys() & CLIENT.keys(), "an error is explained twice"

EXPLANATIONS: dict[str, Explanation] = {**CLIENT, **BROKER}
