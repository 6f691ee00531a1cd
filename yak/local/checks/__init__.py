"""The checks of `yak doctor`: the network, this machine, the metadata store, the terminal."""
