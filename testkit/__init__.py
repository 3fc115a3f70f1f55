"""The test kit for authors: blueprints run on a real server with scripted replies and answers, and skipped time."""

SUFFIX = ".test.yaml"
"""The ending of the names of test files."""
