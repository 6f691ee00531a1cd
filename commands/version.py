"""`yak version`."""

import platform

from yak.commands.app import command
from yak.commands.options import Globals

PARTS = ("confluent-kafka", "trio", "kio", "redis", "hiredis", "typer")


@command(examples=("yak version", "yak version -o json"))
def version(g: Globals) -> None:
    """Show the versions of yak and what it uses."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    from yak import __version__

    versions = {"yak": __version__, "python": platform.python_version()}
    for part in PARTS:
        try:
            versions[part] = version_of(part)
        except PackageNotFoundError:
            versions[part] = "not installed"
    try:
        from confluent_kafka import libversion

        versions["librdkafka"] = libversion()[0]
    except ImportError:
        versions["librdkafka"] = "not installed"
    versions["platform"] = f"{platform.system()} {platform.machine()}"
    if not g.out.document(versions):
        g.out.table([{"part": part, "version": text} for part, text in versions.items()], ("part", "version"))
