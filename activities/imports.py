"""Imports of modules by name, one at a time: for the activities that load authors' modules, and libraries."""

from __future__ import annotations

import importlib
import sys
import threading
from types import ModuleType

_lock = threading.RLock()  # of a thread: a module may import another in its body


def import_alone(name: str) -> ModuleType:
    """Import a module while no other activity imports one, and return it.

    Threads that import parts of a library with an import cycle at once meet modules that are half initialised.

    Raises whatever the module's code raises.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        return module
    with _lock:
        return importlib.import_module(name)
