"""A tool that writes a brief into a file. Writing it again changes nothing, so it is idempotent."""

import re
from pathlib import Path
from typing import Any

from holdfast import tool

FOLDER = Path("briefs")


@tool(idempotent=True)
def write_brief(title: str, facts: dict[str, Any]) -> str:
    """Write a brief as Markdown; gives the file's path."""
    FOLDER.mkdir(exist_ok=True)
    name = re.sub(r"\W+", "-", title.lower()).strip("-")[:60] or "brief"
    lines = [f"# {title}", "", *(f"- **{fact}**: {value}" for fact, value in facts.items())]
    path = FOLDER / f"{name}.md"
    path.write_text("\n".join(lines) + "\n")
    return str(path)
