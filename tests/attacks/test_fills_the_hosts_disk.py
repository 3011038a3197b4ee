"""A desktop's user with a terminal writes to every file system there is, to fill the disk of the host."""

import pytest

from devices.drivers.desktop import sandbox
from tests.support.desktops import running, shell

QUOTA = 16 << 20
# One folder of each file system, by the number of its device.
FILL = """
find / -path /proc -prune -o -type d -writable -printf '%D %p\\n' 2>/dev/null | sort -u -k1,1 |
while read -r _ folder; do
    timeout 5 head -c 48M /dev/zero > "$folder/filler" 2>/dev/null
    [ "$(stat -c %s "$folder/filler" 2>/dev/null || echo 0)" -ge 50331648 ] && echo "$folder"
    rm -f "$folder/filler"
done 2>/dev/null
echo tried
"""


async def test_whatever_a_desktop_writes_is_within_its_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_PROGRAM_DISK", QUOTA)
    async with running() as device:
        assert await shell(device, FILL) == "tried\n"
