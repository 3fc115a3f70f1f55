"""`create --from-flujo`: turn a blueprint that was written for Flujo, and tell line by line what was done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from holdfast.blueprint.load import loads
from holdfast.blueprint.requirements import list_requirements
from holdfast.cli.flujo.convert import Conversion, convert_file
from holdfast.cli.flujo.notes import Note
from holdfast.cli.new_files import check_free, print_command, run_command, write_all
from holdfast.cli.output import DONE, say
from holdfast.client.reading import BadUsage
from holdfast.protocol.display import one_line


async def create_from_flujo(source: Path, file: Path | None, as_json: bool) -> int:
    """Write what a blueprint became, and what its imports did; print the command that runs it, or what is left.

    Raises:
        BadUsage: A file cannot be read or written.
        BlueprintError: It is no blueprint; or the result, which is written all the same, does not load yet.
    """
    file = file or Path(f"{source.stem}.holdfast.yaml")
    check_free(file)
    try:
        conversions = convert_file(source, file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadUsage(f"{source} cannot be read: {reason}") from error
    write_all({path: _text(source, conversion) for path, conversion in conversions.items()})
    changed = [note for conversion in conversions.values() for note in conversion.notes.changed]
    left = [note for conversion in conversions.values() for note in conversion.notes.left]
    _tell("turned:", changed)
    _tell("left for you:", left)
    blueprint = loads(file.read_text(encoding="utf-8"), file=str(file), folder=file.parent)
    if tools := dict.fromkeys(need.name for need in list_requirements(blueprint) if need.kind == "tool"):
        say(f"its tools must be in a module of [worker] imports in holdfast.toml: {', '.join(map(one_line, tools))}")
    notes = {"turned": list(map(_as_json, changed)), "left": list(map(_as_json, left))}
    print_command(run_command(file), as_json, files=list(map(str, conversions)), **notes)
    return DONE


def _text(source: Path, conversion: Conversion) -> str:
    return f"# Turned from {one_line(source.name)}, which was written for Flujo.\n{conversion.text}"


def _tell(title: str, notes: Iterable[Note]) -> None:
    lines = [f"  {note.file}:{note.line}: {note.text}" for note in notes]
    if lines:
        say("\n".join([title, *lines]))


def _as_json(note: Note) -> dict[str, object]:
    return {"file": note.file, "line": note.line, "text": note.text}
