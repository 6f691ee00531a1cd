"""The `yak` command line: one subcommand a file, arguments and printing only."""
