"""A page over HTTP that says where it was pressed, and a lease of a browser that may open it."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import guiagent
from guiagent.client.sync_device import SyncDevice

BUTTON = (100, 50, 80, 40)  # left, top, width, height in pixels
MIDDLE = "140 and 70"
PAGE = f"""<!doctype html><title>not yet</title><body style="margin: 0">
<button style="position: absolute; left: {BUTTON[0]}px; top: {BUTTON[1]}px; width: {BUTTON[2]}px;
 height: {BUTTON[3]}px">b</button>
<script>
  onclick = event => {{
    const where = `${{event.clientX}} and ${{event.clientY}}`
    document.title = document.querySelector("button").textContent = where
  }}
</script>
"""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        data = PAGE.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def pressed_page() -> Iterator[str]:
    """The address of the page, served until the end of the block."""
    listener = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    listener.daemon_threads = True
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_port}/"
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


@contextlib.contextmanager
def leased_with_devtools(url: str) -> Iterator[tuple[SyncDevice, int]]:
    """A browser with the page at `url` open, and the port of its DevTools."""
    site = url.removeprefix("http://").rstrip("/")
    with (
        guiagent.connect(devices=["browser=1@800x600,cdp"]) as farm,
        farm.lease("browser", needs=["cdp"], grants=["exec"], egress=[site]) as device,
        device.forward("cdp") as port,
    ):
        device.open(url)
        yield device, port
