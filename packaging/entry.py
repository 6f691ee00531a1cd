"""Where the executable starts. A frozen YAK starts its brokers by calling itself again, so this is all there is."""

import multiprocessing
import sys

from yak.commands.main import main

if __name__ == "__main__":
    multiprocessing.freeze_support()
    sys.exit(main())
