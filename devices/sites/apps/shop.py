"""The site `shop`: Oscar with the catalogue, customers and orders of an outfitter, and its dashboard."""

from devices.sites.site import Program, Site, home, inside

_NAME = "shop"


def _run(script: str, *arguments: object) -> Program:
    return Program((str(home(_NAME) / "bin/python"), str(inside(_NAME) / script), *map(str, arguments)))


SHOP_SITE = Site(
    _NAME,
    "django-oscar 4.2.1",
    lambda data: _run("seed.py", data),
    lambda data, port: _run("serve.py", data, port),
    ready="/catalogue/",
    databases=("shop.db",),
)
