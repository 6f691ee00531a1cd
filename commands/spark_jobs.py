"""`yak spark jobs`."""

from yak.commands.app import command
from yak.commands.options import Globals


@command(examples=("yak spark jobs", "yak spark run counts --help"))
def jobs(g: Globals) -> None:
    """List yak's built-in jobs."""
    from yak.spark.jobs import summaries

    g.out.table([{"job": name, "does": summary} for name, summary in summaries()], ("job", "does"))
    if g.out.for_people:
        g.out.note("")
        g.out.note("yak spark run JOB --help tells its options; yak spark submit FILE.py runs a program of yours.")
