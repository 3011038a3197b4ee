"""The git commit of the running code, to store with its results."""

import subprocess
from pathlib import Path


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
