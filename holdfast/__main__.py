"""`python -m holdfast`: the same as the command `holdfast`."""

from holdfast.cli.__main__ import main

if __name__ == "__main__":
    main()
