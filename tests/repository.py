"""Where the source stands, and the examples in it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*/*.yaml"))
EXAMPLES = [path for path in EXAMPLES if not path.stem.endswith("replies") and ".test" not in path.suffixes]
