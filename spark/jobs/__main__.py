"""`python -m yak.spark.jobs NAME options`: the process that `yak spark run` starts."""

import sys

from yak.spark.jobs.frame import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
