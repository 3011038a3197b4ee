"""The site `money`: I Hate Money with the shared bills of a flat and of a trip."""

from devices.sites.site import Program, Site, home, inside

_NAME = "money"


def _run(script: str, *arguments: object) -> Program:
    return Program((str(home(_NAME) / "bin/python"), str(inside(_NAME) / script), *map(str, arguments)))


MONEY_SITE = Site(
    _NAME,
    "I Hate Money 7.2.1",
    lambda data: _run("seed.py", data),
    lambda data, port: _run("serve.py", data, port),
    ready="/healthcheck",
    databases=("money.db",),
)
