"""What the guest may lack: modules and programs, looked for when they are used, with the way to get them."""

import importlib
import shutil
from typing import Any


class Missing(Exception):
    """The guest lacks a piece of software. The message is one line with the way out."""


class Unavailable(Exception):
    """The software is there and does not answer: no X server, no session bus. One line."""


def module(name: str, package: str) -> Any:
    """The Python module `name`, or `Missing` naming the Debian package that has it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Missing(f"the guest lacks {name} ({error}): apt-get install {package}") from error


def program(name: str, package: str) -> str:
    """The path of a program, or `Missing` naming the Debian package that has it."""
    path = shutil.which(name)
    if path is None:
        raise Missing(f"the guest lacks {name}: apt-get install {package}")
    return path
