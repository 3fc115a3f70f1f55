"""The line editor of prompts at a terminal: completion, history, several lines, hidden values.

`prompts` loads it when a person is first asked: prompt_toolkit takes a tenth of a second to import, and most commands
ask nobody.
"""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import TextIO, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session, run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from holdfast.cli.prompt import Prompt, PromptInterrupted


class LineEditor:
    """Reads what a person types at the terminal. What is printed on standard error meanwhile appears above."""

    def __init__(self) -> None:
        self._history = InMemoryHistory()

    async def read(self, prompt: Prompt) -> str | None:
        """Return what is typed; None at Ctrl-D. Raises `PromptInterrupted` at Ctrl-C."""
        # On standard error, as standard output may be a file that gets the result.
        with create_app_session(output=_output()):
            session: PromptSession[str] = PromptSession(
                history=InMemoryHistory() if prompt.hidden else self._history,
                key_bindings=_keys(),
                completer=_WordCompleter(prompt.words, prompt.several),
                complete_while_typing=False,
                complete_style=CompleteStyle.READLINE_LIKE,
                multiline=prompt.long,
                prompt_continuation="  ",
                is_password=prompt.hidden,
                enable_open_in_editor=prompt.long,
            )
            try:
                async with _above_the_prompt():
                    return await session.prompt_async(prompt.text)
            except EOFError:
                return None
            except KeyboardInterrupt:
                raise PromptInterrupted from None


class _WordCompleter(Completer):
    """Completes the words that may be typed, whatever their case; of several by commas, the last one."""

    def __init__(self, words: Sequence[str], several: bool) -> None:
        self._words, self._several = words, several

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """See base class."""
        typed = document.text_before_cursor
        begun = (typed.rpartition(",")[2] if self._several else typed).lstrip()
        for word in self._words:
            if word.casefold().startswith(begun.casefold()):
                yield Completion(word, start_position=-len(begun))


def _keys() -> KeyBindings:
    """Return the keys for text of several lines: Enter ends it, Alt-Enter begins a new line."""
    keys = KeyBindings()

    @keys.add("enter")
    def _end(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n" if event.current_buffer.multiline() else "")

    return keys


def _output() -> Output:
    output = create_output(stdout=sys.stderr)
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False  # many terminals do not say where their cursor is, and it would be waited for
    return output


class _AbovePrompt(io.TextIOBase):
    """Standard error while a prompt is open: what is written takes the prompt away, and shows it again below.

    Not by `patch_stdout`: its thread looks for the prompt in a context of its own, and does not find it there.
    """

    def __init__(self, target: TextIO) -> None:
        self._target, self._context = target, copy_context()
        self._text = ""
        self._writing: list[asyncio.Future[None]] = []

    def write(self, text: str) -> int:
        """See base class."""
        self._text += text
        if "\n" in text:
            whole, _, self._text = self._text.rpartition("\n")
            self._show(f"{whole}\n")
        return len(text)

    def isatty(self) -> bool:
        """See base class."""
        return self._target.isatty()

    def fileno(self) -> int:
        """See base class."""
        return self._target.fileno()

    async def finish(self) -> None:
        """Write what is left."""
        await asyncio.gather(*self._writing)
        self._target.write(self._text)
        self._target.flush()

    def _show(self, text: str) -> None:
        def write() -> None:
            self._target.write(text)
            self._target.flush()

        self._writing.append(asyncio.ensure_future(self._context.run(run_in_terminal, write)))


@asynccontextmanager
async def _above_the_prompt() -> AsyncIterator[None]:
    """Print above the prompt what is written to standard error."""
    before = sys.stderr
    above = _AbovePrompt(before)
    sys.stderr = cast(TextIO, above)
    try:
        yield
    finally:
        sys.stderr = before
        await above.finish()
