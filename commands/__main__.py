"""`python -m yak.commands` is `yak`."""

from yak.commands.main import main

if __name__ == "__main__":
    main()
