"""Writes the golden files anew."""

from tests.blueprint.golden import write

if __name__ == "__main__":
    write()
