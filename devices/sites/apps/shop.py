"""The site `shop`: Oscar with the catalogue, customers and orders of an outfitter, and its dashboard."""

from devices.sites.site import Site, python

_NAME = "shop"

SHOP_SITE = Site(
    _NAME,
    "django-oscar 4.2.1",
    lambda data: python(_NAME, "seed.py", data),
    lambda data, port: python(_NAME, "serve.py", data, port),
    ready="/catalogue/",
    databases=("shop.db",),
)
