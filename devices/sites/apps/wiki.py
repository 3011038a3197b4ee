"""The site `wiki`: a django-wiki with the pages of an office, its crews and its meetings."""

from devices.sites.site import Program, Site, home, inside

_NAME = "wiki"


def _run(script: str, *arguments: object) -> Program:
    return Program((str(home(_NAME) / "bin/python"), str(inside(_NAME) / script), *map(str, arguments)))


WIKI_SITE = Site(
    _NAME,
    "django-wiki 0.13.0",
    lambda data: _run("seed.py", data),
    lambda data, port: _run("serve.py", data, port),
    ready="/_search/",
    databases=("wiki.db",),
)
