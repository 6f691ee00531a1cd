"""`python -m yak.spark.jobs NAME options`: what `yak spark run` starts as a process of its own."""

import sys

from yak.spark.jobs.frame import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
