"""The site `data`: Datasette over the repairs of a city's bicycle counters, with forms that write."""

from pathlib import Path

from devices.sites.site import Program, Site, home, inside, python

_NAME = "data"


def _command(data: Path, port: int) -> Program:
    settings = ("force_https_urls", "off", "default_cache_ttl", "0", "num_sql_threads", "2")
    options = [part for name, value in zip(settings[::2], settings[1::2], strict=True)
               for part in ("--setting", name, value)]  # fmt: skip
    return Program(
        (
            *(str(home(_NAME) / "bin/datasette"), "serve", str(data / "counters.db")),
            *("--host", "127.0.0.1", "--port", str(port), "--secret", "not a secret: one user, one instance"),
            *("--metadata", str(inside(_NAME) / "metadata.json"), *options),
        )
    )


DATA_SITE = Site(
    _NAME,
    "Datasette 0.65.5",
    lambda data: python(_NAME, "seed.py", data),
    _command,
    ready="/-/versions.json",
    databases=("counters.db",),
)
