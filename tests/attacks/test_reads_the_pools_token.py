"""The operator's token where others would read it: in what a pool prints, and in the query of an address."""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from guiagent import wire
from guiagent.client.local_pool import read_endpoint

PAGE = Path(__file__).parents[2] / "devices" / "dashboard" / "index.html"


@contextmanager
def up(folder: Path, *words: str) -> Iterator[tuple[wire.Endpoint, str]]:
    """A running pool, and the first line that it printed."""
    command = [sys.executable, "-m", "guiagent.cli", "up", "sim", "--port", "0", *words]
    pool = subprocess.Popen(
        command, env={**os.environ, "GUIAGENT_HOME": str(folder)}, stdout=subprocess.PIPE, text=True
    )
    assert pool.stdout is not None
    try:
        line = pool.stdout.readline()
        endpoint = read_endpoint(folder)
        assert endpoint is not None, line
        yield endpoint, line
    finally:
        pool.terminate()
        pool.communicate(timeout=20)


def test_what_a_pool_prints_holds_no_token(tmp_path: Path) -> None:
    with up(tmp_path) as (endpoint, line):
        assert line.startswith(f"pool ready  {endpoint.url}  live page file:///")
        assert endpoint.token not in line
        lead = Path(line.rpartition("file://")[2].strip())
        assert endpoint.live_url in lead.read_text()
        for file in (lead, tmp_path / "endpoint.json"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not lead.exists()


def test_it_is_printed_on_request(tmp_path: Path) -> None:
    with up(tmp_path, "--show-token") as (endpoint, line):
        assert line.endswith(f"live page {endpoint.live_url}\n")


@pytest.mark.parametrize("path", [wire.DEVICES, wire.LIVE, "/"])
def test_a_token_in_the_query_opens_nothing(tmp_path: Path, path: str) -> None:
    with up(tmp_path) as (endpoint, _):
        known = httpx.get(endpoint.url + path, trust_env=False)
        asked = httpx.get(f"{endpoint.url}{path}?token={endpoint.token}", trust_env=False)
        assert (asked.status_code, asked.content) == (known.status_code, known.content)


def test_the_live_page_reads_no_query() -> None:
    script = PAGE.read_text()
    assert "location.hash" in script
    assert not re.search(r"location\.(search|href)", script)
