"""The command `docs`: the pages of the documentation, which the wheel carries."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.cli.flags import AsJson
from holdfast.cli.output import print_json, print_text
from holdfast.cli.tables import print_table

app = typer.Typer(rich_markup_mode=None)
INDEX = "README"
PACKAGE = Path(__file__).parents[1]


@app.command()
def docs(
    page: Annotated[str | None, typer.Argument(metavar="[PAGE]", help="Its name, such as loops, or a code.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the pages of the documentation, or print one; of a code or the type of a failure, what the pages say of it.

    On a terminal a page is laid out; elsewhere it is printed as Markdown.
    """
    pages = read_pages()
    if page is None:
        titles = {name: _title(text) for name, text in pages.items() if name != INDEX}
        if as_json:
            print_json([{"page": name, "title": title} for name, title in titles.items()])
        else:
            print_table(["page", "the question it answers"], [[name, title] for name, title in titles.items()])
        return
    name = page.removesuffix(".md")
    if name not in pages:
        hint = did_you_mean(name, list(pages))
        places = find_places(name, pages) if "_" in name or not hint else []
        if not places:
            raise typer.BadParameter(f"no page {page!r}; {hint or 'list them with: holdfast docs'}")
        if as_json:
            print_json([{"page": found, "text": text} for found, text in places])
        else:
            print_table(["page", f"what it says of {name}"], places)
        return
    if as_json:
        print_json({"page": name, "title": _title(pages[name]), "text": pages[name]})
    elif sys.stdout.isatty():
        Console().print(Markdown(pages[name], hyperlinks=False))  # a link shows the page that it leads to
    else:
        print_text(pages[name])


def read_pages() -> dict[str, str]:
    """Return the text of each page by its name: of the wheel, or of the checkout."""
    folder = next(path for path in (PACKAGE / "docs", PACKAGE.parent / "docs") if path.is_dir())
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}


def find_places(code: str, pages: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the lines that tell of a code, each with its page: rows of tables, or else every line that names it."""
    quoted = f"`{code}`"
    lines = [(name, line) for name, text in pages.items() for line in text.splitlines() if quoted in line]
    rows = [(name, line) for name, line in lines if line.startswith("|") and quoted in line.split("|")[1]]
    return rows or lines


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")
