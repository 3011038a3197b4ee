"""E2B's own desktop client on a leased desktop; `guiagent e2b desktop=1@1024x768` serves it.

E2B_API_URL and E2B_SANDBOX_URL are the address that it prints, E2B_API_KEY is its token.
"""

import io

from e2b_desktop import Sandbox
from PIL import Image

desktop = Sandbox.create(timeout=120)
try:
    print("screen:", desktop.get_screen_size())
    desktop.left_click(411, 302)
    print("pointer:", desktop.get_cursor_position())

    terminal = desktop.commands.run("xterm -geometry 80x24+0+0", background=True)
    while not desktop.commands.run("xwininfo -root -tree | grep -c '\"xterm\"' || true").stdout.strip("0\n"):
        desktop.wait(100)
    desktop.write("echo typed by E2B > typed.txt; exit\n", delay_in_ms=0)
    print("the terminal ended with", terminal.wait().exit_code)
    print("it wrote:", desktop.files.read("typed.txt").strip())

    print("screenshot:", Image.open(io.BytesIO(desktop.screenshot())).size)
finally:
    desktop.kill()
