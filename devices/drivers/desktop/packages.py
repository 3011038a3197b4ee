"""What a desktop's system has installed, as its Debian package database says: versions, and a digest."""

import re
from functools import lru_cache
from pathlib import Path

import xxhash

_STATUS = "var/lib/dpkg/status"
_LARGEST = 64 << 20  # bytes; a full desktop's is 5 MB
_ENTRY = re.compile(r"^Package: (\S+)\nStatus: (.+)\n(?:.+\n)*?Version: (\S+)$", re.MULTILINE)
_NAMED = (  # whose versions a result should name
    "xvfb",
    "openbox",
    "bubblewrap",
    "chromium",
    "firefox-esr",
    "libreoffice-core",
    "gimp",
    "vlc",
    "thunderbird",
    "code",
    "fonts-dejavu-core",
)


@lru_cache(maxsize=8)
def installed(root: Path) -> tuple[str, str]:
    """Names and versions of the programs that matter, as one line, and the xxh3-64 of all packages' versions.

    Both are empty where the system below `root` is no Debian.
    """
    path = root / _STATUS
    try:
        if path.stat().st_size > _LARGEST:
            return "", ""
        text = path.read_text("utf-8", errors="replace")
    except OSError:
        return "", ""
    found = {name: version for name, status, version in _ENTRY.findall(text) if status.endswith(" installed")}
    named = ", ".join(f"{name} {found[name]}" for name in _NAMED if name in found)
    return named, xxhash.xxh3_64_hexdigest(repr(sorted(found.items())).encode())
