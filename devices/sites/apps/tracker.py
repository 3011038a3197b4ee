"""The site `tracker`: Roundup with the issues of a small team that builds a timetable app."""

from devices.sites.site import Site, python

_NAME = "tracker"

TRACKER_SITE = Site(
    _NAME,
    "Roundup 2.6.0",
    lambda data: python(_NAME, "seed.py", data),
    lambda data, port: python(_NAME, "serve.py", data, port),
    databases=("tracker/db/db",),
)
