"""An author's tests: blueprints run on a real server with written replies, written answers and skipped time."""

SUFFIX = ".test.yaml"
"""How the names of their files end."""
