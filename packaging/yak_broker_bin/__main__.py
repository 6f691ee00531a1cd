"""`yak`: replaces this process by the executable."""

import os
import sys

from yak_broker_bin import find_yak_bin


def main() -> None:
    """Run the executable with the same arguments."""
    path = find_yak_bin()
    os.execv(path, [path, *sys.argv[1:]])  # noqa: S606 - our own executable


if __name__ == "__main__":
    main()
