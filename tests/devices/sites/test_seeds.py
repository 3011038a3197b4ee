"""Every site's seed program leaves the same rows each time that it is run."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from devices.sites import SITES
from devices.sites.image import image
from devices.sites.site import is_installed


def rows(database: Path) -> list[str]:
    """Every row as a statement; how the tables are declared does not matter."""
    with closing(sqlite3.connect(f"file:{database}?immutable=1", uri=True)) as opened:
        return [line for line in opened.iterdump() if line.startswith("INSERT")]


@pytest.mark.drill
@pytest.mark.parametrize("name", SITES)
async def test_a_site_is_seeded_alike_each_time(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = SITES[name]
    if not is_installed(name):
        pytest.skip(f"not installed: scripts/sites {name}")
    made = []
    for place in ("first", "second"):
        monkeypatch.setenv("GUIAGENT_HOME", str(tmp_path / place))
        made.append(await image(site))
    for path in site.databases:
        first, second = (rows(folder / path) for folder in made)
        assert first and first == second
