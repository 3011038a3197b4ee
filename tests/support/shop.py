"""A shop of a few lines that stands in for a site of WebArena's: a cart, a form, and an end in the middle."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_LINK = "position:fixed; inset:0; display:block; font-size:60px"
_FORM = """<form method=post action=/review?from=page><input type=hidden name=stars value=5>
<input type=hidden name=text value="Very good"><button style="position:fixed; inset:0">send</button></form>"""


class Shop:
    """A running shop. Its start page is one large link that buys a lamp, /review one large button."""

    def __init__(self) -> None:
        self.cart: list[str] = []
        self.broken = False  # every page is a server's error
        self.deadly = False  # it ends once a lamp is bought
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/buy/"):
                    shop.cart.append(self.path.removeprefix("/buy/"))
                page = _FORM if self.path == "/review" else ""
                page += f'<a style="{_LINK}" href=/buy/lamp>buy</a>' if self.path == "/" else ""
                if "user=" in self.headers.get("cookie", ""):
                    page += "<p>logged in</p>"
                rows = "".join(f"<li class=thing>{thing}</li>" for thing in shop.cart)
                self._say(
                    503 if shop.broken else 200, f"<title>shop</title><h1>Shop</h1><ul>{rows}</ul>{page}"
                )
                if shop.deadly and shop.cart:
                    threading.Thread(target=shop.end).start()

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(302)
                self.send_header("Location", "/thanks")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def _say(self, status: int, page: str) -> None:
                self.send_response(status)
                if self.path == "/login":
                    self.send_header("Set-Cookie", "user=emma; Max-Age=3600; Path=/")
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(page.encode())))
                self.end_headers()
                self.wfile.write(page.encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self._ended = threading.Lock()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def end(self) -> None:
        """Stop serving: from now on connections are refused."""
        if self._ended.acquire(blocking=False):
            self._server.shutdown()
            self._server.server_close()


@contextmanager
def running_shop() -> Iterator[Shop]:
    shop = Shop()
    try:
        yield shop
    finally:
        shop.end()
