"""What made a result: the git commit of the running code, and the packages beside it."""

import importlib.metadata
import platform
import subprocess
from functools import cache
from pathlib import Path

_PACKAGES = ("guiagent", "torch", "transformers", "pillow", "miniwob")  # what may change a result


@cache
def commit() -> str:
    """Return the checkout's commit, with "+" if files differ from it; "unknown" outside a checkout."""
    root = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that may change a result, if they are installed."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
