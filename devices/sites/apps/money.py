"""The site `money`: I Hate Money with the shared bills of a flat and of a trip."""

from devices.sites.site import Site, python

_NAME = "money"

MONEY_SITE = Site(
    _NAME,
    "I Hate Money 7.2.1",
    lambda data: python(_NAME, "seed.py", data),
    lambda data, port: python(_NAME, "serve.py", data, port),
    ready="/healthcheck",
    databases=("money.db",),
)
