"""`yak spark`: jobs, run, submit, sql, shell, status, stop. Each has a file of its own."""

from yak.commands.app import CommandGroup
from yak.commands.spark_jobs import jobs
from yak.commands.spark_run import own_words_first, run
from yak.commands.spark_shell import shell
from yak.commands.spark_sql import sql
from yak.commands.spark_status import status, stop
from yak.commands.spark_submit import submit

spark = CommandGroup(
    "spark",
    "Run Spark jobs, SQL and programs over topics.",
    examples=(
        "yak spark jobs",
        "yak spark run counts --topic orders --follow",
        "yak spark sql 'SELECT key, count(*) FROM orders GROUP BY key'",
        "yak spark submit my_job.py --master spark://HOST:7077 -- --topic orders",
        "yak spark status",
    ),
    rewrite=own_words_first,
    leaves={"jobs": jobs, "run": run, "submit": submit, "sql": sql, "shell": shell, "status": status, "stop": stop},
)
