"""The site `forum`: a Spirit in which a town's cyclists talk about routes, repairs and counters."""

from devices.sites.site import Site, python

_NAME = "forum"

FORUM_SITE = Site(
    _NAME,
    "Spirit 0.14.3",
    lambda data: python(_NAME, "seed.py", data),
    lambda data, port: python(_NAME, "serve.py", data, port),
    databases=("forum.db",),
)
