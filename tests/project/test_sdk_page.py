"""docs/sdk.md names every verb of a device, blocking and asynchronous, and nothing that is none."""

import re
from pathlib import Path

from guiagent.client import LeasedDevice
from guiagent.client.sync_device import SyncDevice
from guiagent.client.verbs import Verbs

PAGE = (Path(__file__).parents[2] / "docs" / "sdk.md").read_text()


def public(*kinds: type) -> set[str]:
    return {name for kind in kinds for name in vars(kind) if not name.startswith("_")}


def test_every_verb_is_on_the_page() -> None:
    told = set(re.findall(r"`(\w+)", PAGE))
    assert public(Verbs, LeasedDevice, SyncDevice) - told == set()


def test_every_verb_on_the_page_is_one() -> None:
    tables = PAGE.split("## Verbs")[1].split("## Elements")[0]
    first = [row.split("|")[1] for row in tables.splitlines() if row.startswith("|")]
    told = {name for cell in first for name in re.findall(r"`(\w+)", cell)}
    assert len(told) > 25
    assert told <= public(Verbs, LeasedDevice, SyncDevice)
