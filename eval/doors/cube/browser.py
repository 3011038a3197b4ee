"""A leased browser for the browser tools of CUBE (cube-browser-tool 0.3), in place of one that they launch.

`LeasedPlaywrightConfig(browser=LeasedBrowser(...))` is a tool for any cube of the web, and so is
`BgymToolConfig(browser=LeasedBrowser(...))` in one process: its JSON has no room for what is LeasedBrowser's
own. They drive the browser by its DevTools, so that guardrails, records and the log do not have what they do;
the lease's egress rules hold.
"""

import contextlib
from typing import Any

from pydantic import Field

from guiagent.client.sync import connect
from guiagent.errors import GuiAgentError, MissingProgram, UsageError

try:
    from cube_browser_playwright import PlaywrightSession, PlaywrightSessionConfig  # type: ignore[import-not-found]
    from cube_browser_tool import PlaywrightConfig  # type: ignore[import-not-found]
    from playwright.sync_api import Error, sync_playwright
except ImportError:
    raise MissingProgram("cube-browser-tool is not installed: pip install cube-browser-tool") from None

_WAIT_S = 120.0
_LAUNCH = {
    name: field
    for name, field in PlaywrightSessionConfig.model_fields.items()
    if name not in ("viewport", "timeout", "headless")
}


class LeasedBrowser(PlaywrightSessionConfig):  # type: ignore[misc]
    """Leases a browser whenever a tool wants one, and gives it back when the tool has done.

    `pool` is as for `guiagent.connect`, with browsers that have `cdp`; without one, this user's pool is used,
    or one browser of the size of `viewport` is started. `egress` says what its pages may reach, as for a
    lease. Options that only who launches a browser has are refused.
    """

    pool: str | None = None
    egress: list[str] = Field(default=["public"])

    def make(self) -> "LeasedSession":
        """Lease a browser and attach to it. Raises FaultError, and UsageError for options of a launch."""
        usual = {name: field.get_default(call_default_factory=True) for name, field in _LAUNCH.items()}
        if beyond := [name for name, value in usual.items() if getattr(self, name) != value]:
            raise UsageError(f"a leased browser is running already: it has no option {', '.join(beyond)}")
        size = f"{self.viewport.width}x{self.viewport.height}"
        with contextlib.ExitStack() as held:
            farm = held.enter_context(connect(self.pool, devices=[f"browser=1@{size},cdp"]))
            lease = farm.lease(needs=["cdp"], grants=["exec"], egress=self.egress, label="cube", wait=_WAIT_S)
            device = held.enter_context(lease)
            url = f"http://127.0.0.1:{held.enter_context(device.forward('cdp'))}"
            playwright = held.enter_context(sync_playwright())
            browser = playwright.chromium.connect_over_cdp(url)
            (context,) = browser.contexts
            if self.timeout is not None:
                context.set_default_timeout(self.timeout)
            page = context.pages[0] if context.pages else context.new_page()
            return LeasedSession(
                held.pop_all(), playwright=playwright, page=page, context=context, cdp_url=url
            )


class LeasedPlaywrightConfig(PlaywrightConfig):  # type: ignore[misc]
    """CUBE's Playwright tool on leased browsers; its JSON has the whole of `browser`."""

    browser: LeasedBrowser = Field(default_factory=LeasedBrowser)


class LeasedSession(PlaywrightSession):  # type: ignore[misc]
    """A leased browser with its DevTools attached."""

    def __init__(self, held: contextlib.ExitStack, **live: Any) -> None:
        super().__init__(**live, user_data_dir="")
        self._held = held

    def stop(self) -> None:
        """Detach, and give the browser back; a lease that has ended already is none to give back."""
        with contextlib.suppress(Error, GuiAgentError):
            self._held.close()
