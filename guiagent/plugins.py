"""What other packages bring along, found by the entry points of their distributions.

Format: https://packaging.python.org/en/latest/specifications/entry-points/
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from guiagent.errors import UsageError

SUITES = "guiagent.suites"  # each is an `eval.suites.suite.Suite`
TASKSETS = "guiagent.tasksets"  # each is called with `oracle=` and returns a `guiagent.protocols.Taskset`


def names(group: str) -> list[str]:
    """Return the names that installed packages have in a group, sorted."""
    return sorted({found.name for found in entry_points(group=group)})


def load(group: str, name: str) -> Any:
    """Import what an installed package has under a name of a group.

    Raises:
        UsageError: two packages have that name, or it cannot be imported.
    """
    found = list(entry_points(group=group, name=name))
    packages = ", ".join(sorted(_package(one) for one in found))
    if len(found) != 1:
        raise UsageError(f"{name!r} of {group} is in several packages ({packages}): uninstall one of them")
    try:
        return found[0].load()
    except Exception as error:  # anything may go wrong in somebody's module
        message = f"{name!r} of the package {packages} cannot be loaded: {type(error).__name__}: {error}"
        raise UsageError(message[:500]) from error


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value
