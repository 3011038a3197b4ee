"""The definition of a site: a real web application with data of ours, leased together with a browser.

An application file is `devices/sites/apps/NAME.py`. What goes into its sandbox beside the application
(seed program, settings, texts, `requirements.txt` or `package.json`) lies in `devices/sites/inside/NAME/`.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

DATA = Path("/data")
"""Where the data folder of a site is, in its sandbox; nothing else there is kept in the image."""
_INSIDE = Path(__file__).with_name("inside")
SHARED = Path(__file__).with_name("shared")
"""Python modules of ours that every site's programs may import: `from serving import serve`."""
_CHECKOUT = Path(__file__).parents[2]


class Program(NamedTuple):
    """A program that is run in a site's sandbox.

    Attributes:
        argv: absolute path of a program, and its arguments. `home(NAME)`, `inside(NAME)` and `SHARED` are
            there under the same paths as here, read-only; so are /usr and its like. `DATA` may be written,
            and /tmp.
        environment: variables besides PATH (`home(NAME)/bin` comes first), PYTHONPATH (`SHARED`), HOME
            (/tmp/home), TMPDIR, LANG (C.UTF-8), TZ (UTC) and PYTHONHASHSEED (0). None of this process's own
            are there.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Site:
    """A web application that a package ships, unmodified, and how it is filled, started and read.

    Attributes:
        name: what leases, tasks and `scripts/sites` call it: "tracker". Lower case letters, digits, dashes.
        title: the application and its version, as results name it: "Roundup 2.5.0".
        seed: `seed(data)` is the program that fills the empty folder `data`. It is run once for each version
            of the definition, in the sandbox, and must end with code 0 within `seed_s`. What it leaves in
            `data` as plain files and folders becomes the image of every instance; links, owners, permissions
            and times of files are not kept. It must always leave the same rows: it writes fixed times rather
            than "now", and draws from a seeded generator.
        command: `command(data, port)` is the server, which listens at 127.0.0.1:`port` and stays in the
            foreground. It must take `host` for its own name, at port 80 (no port in links), without TLS.
            The clock is the machine's: a cookie that a past clock dates has expired when the browser gets it.
        ready: a path that answers with a status below 500 once the server serves.
        databases: SQLite files below `data` that a check may read, as of one moment, with their journals.
        files: other files below `data` that a check may read; one that ends with "/" is a folder with all
            that is in it.
        secure: the browser is to treat the site as a secure context (`crypto.subtle`, service workers), as it
            does names below "localhost".
        seed_s, start_s: seconds after which seeding, or a start, has failed.
        processes: how many processes and threads it may have.
    """

    name: str
    title: str
    seed: Callable[[Path], Program]
    command: Callable[[Path, int], Program]
    ready: str = "/"
    databases: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    secure: bool = field(default=False, kw_only=True)
    seed_s: float = field(default=300.0, kw_only=True)
    start_s: float = field(default=60.0, kw_only=True)
    processes: int = field(default=256, kw_only=True)

    @property
    def host(self) -> str:
        """The name that the browser knows the site by, on every lease and machine."""
        return f"{self.name}.{'localhost' if self.secure else 'test'}"

    @property
    def origin(self) -> str:
        """How URLs of the site begin, in data and in tasks: "http://tracker.test"."""
        return f"http://{self.host}"

    @property
    def feature(self) -> str:
        """What a lease request needs: "site:tracker"."""
        return f"site:{self.name}"


def home(name: str) -> Path:
    """The folder that `scripts/sites NAME` installs the application into, an environment of its own.

    It is below $GUIAGENT_SITES, or else below `.venv-sites/` of the checkout. Its file `installed` is there
    once it is whole.
    """
    # Its programs name their interpreter by the place where they were installed, whatever link leads there.
    return Path(os.environ.get("GUIAGENT_SITES") or _CHECKOUT / ".venv-sites").resolve() / name


def inside(name: str) -> Path:
    """The folder of what is ours in the site's sandbox: `devices/sites/inside/NAME`."""
    return _INSIDE / name


def python(name: str, script: str, *arguments: object) -> Program:
    """A script of `inside(name)`, run by the Python of the application's own environment."""
    return Program((str(home(name) / "bin/python"), str(inside(name) / script), *map(str, arguments)))


def is_installed(name: str) -> bool:
    return (home(name) / "installed").is_file()
