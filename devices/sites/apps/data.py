"""The site `data`: Datasette over the repairs of a city's bicycle counters, with forms that write."""

from pathlib import Path

from devices.sites.site import Program, Site, home, inside

_NAME = "data"


def _seed(data: Path) -> Program:
    return Program((str(home(_NAME) / "bin/python"), str(inside(_NAME) / "seed.py"), str(data)))


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
    _seed,
    _command,
    ready="/-/versions.json",
    databases=("counters.db",),
)
