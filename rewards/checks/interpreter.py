"""Sandboxes that hold this Python, its packages and ours, and copies of files; nothing else of this host."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from guiagent import sandbox
from guiagent.errors import InfrastructureError

_CODE = "opt/guiagent"
_OURS = ("guiagent", "rewards")
_SYSTEM = ("/usr", "/etc/ld.so.cache", "/etc/alternatives")
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "SDL_VIDEODRIVER": "dummy",
    "SDL_AUDIODRIVER": "dummy",
}


def plan(
    module: str, arguments: tuple[str, ...], size: int, limits: Mapping[str, int], files: Mapping[str, Path]
) -> sandbox.Plan:
    """Plan for `main(*arguments)` of one of our modules, with copies of `files` in /work by their keys.

    It may write `size` bytes, below /tmp.

    Raises:
        InfrastructureError: this machine has no sandboxes.
    """
    if why := why_no_sandbox():
        raise InfrastructureError(f"what an agent makes is graded in a sandbox only: {why}")
    return _plan(
        f"import sys; sys.path[:] = ['/{_CODE}', *sys.path, *{_packages()}]; "
        f"from {module} import main; main(*sys.argv[1:])",
        arguments,
        size,
        limits,
        files,
    )


@cache
def why_no_sandbox() -> str:
    """ "" if this machine allows sandboxes, else why not and what to do."""
    try:
        return sandbox.why_not_isolated(_plan("", (), 1 << 20, {}, {}))
    except TimeoutError as error:
        raise InfrastructureError(f"{error}; try again") from error


def _plan(
    code: str, arguments: tuple[str, ...], size: int, limits: Mapping[str, int], files: Mapping[str, Path]
) -> sandbox.Plan:
    return sandbox.Plan(
        name="guiagent-checks",
        size=size,
        limits={"CORE": 0, "NOFILE": 256, **limits},
        overlays={},
        layer={},
        binds=[(place, place.lstrip("/"), True) for place in _visible()] + _our_code(),
        copies=[(str(path.absolute()), f"work/{name}") for name, path in files.items()],
        folders=["tmp"],
        links=sandbox.SYSTEM_LINKS,
        command=sandbox.bubblewrap([sys.executable, "-I", "-B", "-c", code, *arguments], _ENVIRONMENT),
    )


def _visible() -> list[str]:
    """The system's programs and libraries, and Python's own folders."""
    own = [place for place in (sys.base_prefix, sys.prefix, *_packages()) if not place.startswith("/usr")]
    return [place for place in dict.fromkeys([*_SYSTEM, *own]) if Path(place).exists()]


def _packages() -> list[str]:
    """Folders of packages, which may be outside Python's own, in the order in which they are searched."""
    return [place for place in sys.path if Path(place).name in ("site-packages", "dist-packages")]


def _our_code() -> list[tuple[str, str, bool]]:
    found = []
    for name in _OURS:
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        found.append((str(Path(spec.origin).parent), f"{_CODE}/{name}", True))
    return found
