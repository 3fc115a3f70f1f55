"""Tools that the tests' blueprints call; each call appends a line to a file, so that it can be counted."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from pydantic import BaseModel

from holdfast.activities import Interrupt, resumed, tool


def calls(folder: Path, name: str) -> int:
    path = folder / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def count(folder: str, name: str) -> int:
    """Count one call more; how many there were, with this one."""
    with (Path(folder) / name).open("a") as file:
        file.write("called\n")
    return calls(Path(folder), name)


@tool(idempotent=True)
def counted(folder: str, name: str) -> str:
    return f"{name} {count(folder, name)}"


@tool
def hangs_once(folder: str, name: str) -> str:
    """Takes effect, then hangs in its first call for as long as the file `hang` is there."""
    count(folder, name)
    while (Path(folder) / "hang").exists():
        time.sleep(0.05)
    return "done"


@tool
async def waits_to_be_cancelled(folder: str, name: str) -> None:
    """Takes effect, then waits for its cancellation."""
    count(folder, name)
    await asyncio.Event().wait()


@tool(idempotent=True)
def does(folder: str, what: str) -> dict[str, str]:
    """Write down what is done."""
    with (Path(folder) / "done").open("a") as file:
        file.write(f"{what}\n")
    return {"what": what, "id": f"#{what}"}


@tool
def cannot_undo(folder: str, what: str) -> None:
    """Fails while the file `shut` is there."""
    if (Path(folder) / "shut").exists():
        raise ValueError("shut")
    does(folder, what)


@tool(idempotent=True)
def does_once_open(folder: str, what: str) -> dict[str, str]:
    """Writes down what is done once the file `shut-WHAT` is gone."""
    count(folder, f"begun-{what}")
    while (Path(folder) / f"shut-{what}").exists():
        time.sleep(0.05)
    return does(folder, what)


def read_done(folder: Path) -> list[str]:
    """What `does` has done, in its order."""
    path = folder / "done"
    return path.read_text().split() if path.exists() else []


@tool
def look_up(folder: str, word: str) -> str:
    """Look a word up."""
    return f"{word} {count(folder, f'look_up-{word}')}"


@tool
def pay_out(folder: str, payee: str, amount: float) -> dict[str, object]:
    """Pay somebody."""
    count(folder, "pay")
    return {"paid": amount, "to": payee}


class _Reply(BaseModel):
    id: int


@tool
def misreads(folder: str) -> int:
    """Takes effect, and cannot read what comes back."""
    count(folder, "misreads")
    return _Reply.model_validate({"id": "none"}).id


@tool
def fails_always() -> None:
    """Never works."""
    raise ValueError("broken for good")


@tool
def fails_at_length(length: int) -> None:
    """Never works, and says why in that many characters, the last one an end."""
    raise ValueError(f"{'word ' * (length // 5)}".ljust(length - 1, "x") + "!")


@tool
def mendable(folder: str, name: str, after: int = 0) -> str:
    """Fails without effect while there is a file `broken` or `broken-NAME`, and not before so many payments."""
    while calls(Path(folder), "pay") < after:
        time.sleep(0.02)
    if (Path(folder) / "broken").exists() or (Path(folder) / f"broken-{name}").exists():
        raise ValueError("broken, and can be mended")
    return f"{name} {count(folder, name)}"


@tool
def stringy(text: str) -> str:
    """Gives its text."""
    return text


@tool
def request_user_info(question: str) -> str:
    """Has a name that means something else to an agent."""
    return question


@tool
def final_result(text: str) -> str:
    """Has a name that means something else to an agent with a schema."""
    return text


@tool
def unkeepable(what: str) -> object:
    """A result that cannot go on as it is."""
    deep: list[object] = []
    for _ in range(100):
        deep = [deep]
    results = {"inf": {"x": [float("inf")]}, "wide": 2**63, "many": [0] * 100_000, "deep": deep}
    return results.get(what, "x" * 8 * 1024 * 1024)


@tool
def wants_anything() -> object:
    """Asks without a form, and gives what it hears."""
    answer = resumed(object)
    if not answer.has_data:
        raise Interrupt("What is it?")
    return answer.data


def never_decides(input: object, context: object) -> bool:
    """A condition of an author's that has a bug."""
    return bool(context["missing"])  # type: ignore[index]
