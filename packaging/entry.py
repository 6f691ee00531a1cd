"""Where the executable starts. A frozen YAK starts its brokers by calling itself again.

It also runs the modules of YAK that are programs of their own, as Python would: `yak -P -m yak.local.guardian`.
"""

import multiprocessing
import runpy
import sys

PROGRAMS = ("yak.local.guardian", "yak.testing.remote")

if __name__ == "__main__":
    multiprocessing.freeze_support()
    if sys.argv[1:3] == ["-P", "-m"] and sys.argv[3:4] and sys.argv[3] in PROGRAMS:
        program = sys.argv[3]
        del sys.argv[1:4]
        runpy.run_module(program, run_name="__main__")
    else:
        from yak.commands.main import main

        sys.exit(main())
