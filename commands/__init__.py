"""The `yak` command line: one file per subcommand; it parses arguments and prints results."""
