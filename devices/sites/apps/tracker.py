"""The site `tracker`: Roundup with the issues of a small team that builds a timetable app."""

from devices.sites.site import Program, Site, home, inside

_NAME = "tracker"


def _run(script: str, *arguments: object) -> Program:
    return Program((str(home(_NAME) / "bin/python"), str(inside(_NAME) / script), *map(str, arguments)))


TRACKER_SITE = Site(
    _NAME,
    "Roundup 2.6.0",
    lambda data: _run("seed.py", data),
    lambda data, port: _run("serve.py", data, port),
    databases=("tracker/db/db",),
)
