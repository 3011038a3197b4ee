"""The sandbox of a site: what its programs see of this machine, what they may write and take."""

import json
from collections.abc import Sequence
from pathlib import Path

from devices.processes import MEMORY
from devices.sites import keeper
from devices.sites.site import DATA, SHARED, Program, Site, home, inside
from guiagent.sandbox import SYSTEM_LINKS, Plan, bubblewrap

PORT = 8000  # of the server, on the loopback of its own sandbox
_DISK = 512 << 20  # bytes that a site may write in all places together
_FILE = 256 << 20  # bytes of a file
_USER = 1000
_KEEPER = "/run/keeper.py"
# The part of /etc that applications need and everybody may read.
_ETC = ("alternatives", "ld.so.cache", "mime.types", "ssl/openssl.cnf", "localtime", "fonts")
_ACCOUNTS = {
    "etc/passwd": f"root:x:0:0:root:/root:/bin/sh\nuser:x:{_USER}:{_USER}:User:/tmp/home:/bin/sh\n",
    "etc/group": f"root:x:0:\nuser:x:{_USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
}


def site_plan(
    site: Site, folder: Path, image: Path, program: Program, serves: bool, sockets: tuple[int, int]
) -> Plan:
    """Plan for an instance in `folder` over `image`, which runs `program` at once, or when it is asked to.

    `sockets`: descriptors of the listening sockets, for connections to the server and for the host.
    """
    web, control = sockets
    told = {
        "command": list(program.argv) if serves else [],
        "port": PORT,
        "folder": str(DATA),
        "web": web,
        "control": control,
    }
    binds = [("/usr", "usr", True), (keeper.__file__, _KEEPER.lstrip("/"), True)]
    binds += [(str(place), str(place).lstrip("/"), True) for place in _programs(site) if place.is_dir()]
    binds += [(f"/etc/{name}", f"etc/{name}", True) for name in _ETC if Path("/etc", name).exists()]
    (folder / "etc").mkdir(exist_ok=True)
    return Plan(
        name=str(folder),
        size=_DISK,
        limits={
            "NPROC": site.processes,
            "DATA": MEMORY,
            "FSIZE": _FILE,
            "NOFILE": 4096,
            "CORE": 0,
        },
        overlays={"etc": str(folder / "etc"), str(DATA).lstrip("/"): str(image)},
        layer=_ACCOUNTS,
        binds=binds,
        copies=[],
        folders=["tmp", "var/tmp"],
        links=SYSTEM_LINKS,
        command=bubblewrap(
            ["/usr/bin/python3", "-I", "-S", _KEEPER, json.dumps(told)],
            _environment(site) | dict(program.environment),
            _USER,
            "site",
        ),
    )


def _environment(site: Site) -> dict[str, str]:
    return {
        "PATH": f"{home(site.name)}/bin:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(SHARED),
        "HOME": "/tmp/home",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _programs(site: Site) -> Sequence[Path]:
    """Folders that the site's programs are in: the application, ours, and the Python it was made with."""
    places = [home(site.name), inside(site.name), SHARED]
    python = (home(site.name) / "bin/python").resolve()
    if python.exists() and not python.is_relative_to("/usr"):
        places.append(python.parents[1])
    return places
