"""What makes a desktop or a virtual machine look like OSWorld's: one recipe for both.

`bin` goes before the system's programs: `google-chrome` by Chromium, a `sudo` that does what it can. `etc`
has settings of the system: a session bus where OSWorld's tasks look for it, no dialogs at Thunderbird's first
start. `home` is a skeleton of the user's home: no dialogs at the first start of LibreOffice and VLC, and
settings of Chrome's that a set-up can change before its first start.
"""

from pathlib import Path

_HERE = Path(__file__).parent
BIN = _HERE / "bin"
HOME = _HERE / "home"
FOLDERS = ("Desktop", "Documents", "Downloads", "Music", "Pictures", "Public", "Templates", "Videos")
"""In every home, as `xdg-user-dirs` makes them."""

_KEYS = "etc/xdg/openbox/rc.xml"
_TERMINAL = (
    '<keybind key="C-A-t"><action name="Execute"><command>terminal</command></action></keybind>\n</keyboard>'
)


def system_files(root: Path) -> dict[str, str]:
    """Text of the files to lay over the system below `root`, by path.

    They are those of `etc`, and Openbox's settings with Ctrl+Alt+T for a terminal.
    """
    files = {
        f"etc/{path.relative_to(_HERE / 'etc')}": path.read_text("utf-8")
        for path in sorted((_HERE / "etc").rglob("*"))
        if path.is_file()
    }
    settings = root / _KEYS
    if settings.is_file():
        files[_KEYS] = settings.read_text("utf-8", "replace").replace("</keyboard>", _TERMINAL, 1)
    return files
