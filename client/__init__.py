"""The client side: the Python API for runs, and the `holdfast` command. Programs import its names from `holdfast`."""
