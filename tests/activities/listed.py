"""A module that a worker lists; it imports more than it defines."""

from __future__ import annotations

import functools
import os
import subprocess
from collections import OrderedDict
from subprocess import getoutput

from holdfast.activities import tool


def shout(text: str) -> str:
    return text.upper()


async def wait(text: str) -> str:
    return text


def _hidden(text: str) -> str:
    return text


@functools.cache
def cached(text: str) -> str:
    return text


@tool(name="registered_in_listed")
def registered(text: str) -> str:
    return text


class Greeter:
    """A class is never called by a blueprint."""

    def greet(self, name: str) -> str:
        return f"hello {name}"


greet = Greeter().greet
run = functools.partial(getoutput)
renamed = getoutput
system = os.system
print_it = print
IMPORTED = (OrderedDict, subprocess)
