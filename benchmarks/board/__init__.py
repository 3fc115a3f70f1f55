"""Tests that other people wrote, run against Holdfast: `make board AGENTDOJO=FOLDER …` prints one table.

Nothing is fetched. Each argument is a folder into which somebody has installed a suite; a suite without one is left
out, and the table says so. docs/board.md has what the table said, with versions.
"""
