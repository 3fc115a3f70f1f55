"""A terminal as far as prompts use one: what stands on the screen after all that was written to it."""

from __future__ import annotations

import re

_PIECES = re.compile(
    r"\x1b\[(?P<args>[?>]?[\d;]*)(?P<command>[A-Za-z])|\x1b\][^\x07]*\x07|\x1b.|(?P<text>.)", re.DOTALL
)


class Emulator:
    """A screen of endless height, whose lines wrap at `columns`."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._rows: list[list[str]] = [[]]
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        for piece in _PIECES.finditer(text):
            if piece["command"]:
                self._control(piece["command"], piece["args"])
            elif piece["text"]:
                self._write(piece["text"])

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self._rows]

    def _write(self, letter: str) -> None:
        match letter:
            case "\r":
                self._column = 0
            case "\n":
                self._down(1)
            case "\b":
                self._column = max(0, self._column - 1)
            case _ if letter.isprintable():
                if self._column == self.columns:
                    self._column = 0
                    self._down(1)
                row = self._rows[self._row]
                row.extend(" " * (self._column + 1 - len(row)))
                row[self._column] = letter
                self._column += 1

    def _control(self, command: str, args: str) -> None:
        count = int(args or 1) if args.isdigit() or not args else 1
        match command:
            case "A":
                self._row = max(0, self._row - count)
            case "B":
                self._down(count)
            case "C":
                self._column = min(self.columns - 1, self._column + count)
            case "D":
                self._column = max(0, self._column - count)
            case "K":
                del self._rows[self._row][self._column :]
            case "J":
                del self._rows[self._row][self._column :]
                del self._rows[self._row + 1 :]

    def _down(self, count: int) -> None:
        self._row += count
        self._rows.extend([] for _ in range(self._row + 1 - len(self._rows)))
