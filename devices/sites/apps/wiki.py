"""The site `wiki`: a django-wiki with the pages of an office, its crews and its meetings."""

from devices.sites.site import Site, python

_NAME = "wiki"

WIKI_SITE = Site(
    _NAME,
    "django-wiki 0.13.0",
    lambda data: python(_NAME, "seed.py", data),
    lambda data, port: python(_NAME, "serve.py", data, port),
    ready="/_search/",
    databases=("wiki.db",),
)
