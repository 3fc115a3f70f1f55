"""Read the text of a traceback, as a failure carries it: which of its calls are in the author's own code."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FRAME = re.compile(r'^ *File "(?P<file>[^"\n]*)", line (?P<line>\d+), in (?P<name>[^\n]*)$', re.MULTILINE)
_OURS = __file__.removesuffix("protocol/tracebacks.py")
"""Where the code of Holdfast is."""
_FRAMEWORK = ("/temporalio/", "/concurrent/futures/", "/asyncio/", "/pydantic/")
_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python3.")


def keep_called(trace: str) -> str:
    """Return a traceback without the calls by Holdfast and Temporal that lead to the code that was called.

    >>> keep_called('  File "/x/temporalio/worker.py", line 1, in run\\n    go()\\n  File "/p/t.py", line 2, in t\\n')
    '  File "/p/t.py", line 2, in t\\n'
    """
    return "".join(text for file, text in _frames(trace) if not _is_frameworks(file))


def find_raise(trace: str) -> str | None:
    """Return the file, line and function of the innermost call in the author's own code; None if there is none.

    >>> find_raise('  File "/p/tools.py", line 7, in pay\\n    1 / 0\\n')
    '/p/tools.py:7 in pay'
    >>> find_raise('  File "/v/lib/python3.11/site-packages/openai/x.py", line 7, in post\\n') is None
    True
    """
    own = [frame for frame in _FRAME.finditer(trace) if _is_authors(frame["file"])]
    return f"{own[-1]['file']}:{own[-1]['line']} in {own[-1]['name']}" if own else None


def _frames(trace: str) -> Iterator[tuple[str, str]]:
    """Yield each call of a traceback: its file and its lines."""
    frames = list(_FRAME.finditer(trace))
    for index, frame in enumerate(frames):
        end = frames[index + 1].start() if index + 1 < len(frames) else len(trace)
        yield frame["file"], trace[frame.start() : end]


def _is_frameworks(file: str) -> bool:
    return file.startswith(_OURS) or any(part in file for part in _FRAMEWORK)


def _is_authors(file: str) -> bool:
    return not (_is_frameworks(file) or file.startswith("<") or any(part in file for part in _INSTALLED))
