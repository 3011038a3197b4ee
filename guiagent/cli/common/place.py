"""Where a suite is run: on devices of another kind, image or size, of a config, or of a pool that runs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guiagent.errors import UsageError

if TYPE_CHECKING:  # every command imports this file
    from devices.config import DeviceConfig
    from eval.suites.suite import Suite

OnDevice = Annotated[
    str | None,
    typer.Option(help="Kind, image and size, as for `up`: desktop@1280x800, vm:osworld-desktop@1920x1080."),
]
OfConfig = Annotated[
    Path | None, typer.Option(help="A pool's TOML file, as for `up`: a desktop of another rootfs, say.")
]
OnPool = Annotated[
    str | None,
    typer.Option(help="A running pool: its address, with $GUIAGENT_TOKEN, or its state folder."),
]


@dataclass(frozen=True)
class Place:
    """Where a suite is run, if not on devices of its own kind and size that this machine starts."""

    device: str | None = None  # a word of `guiagent up`, such as "vm:osworld-desktop@1280x800"
    config: Path | None = None  # of a pool to start
    pool: str | None = None  # a running one: its address, or its state folder
    guardrails: Path | None = None  # a TOML file of rules for the pool that is started

    def of(self, suite: "Suite") -> "Suite":
        """Return the suite with the kind of device, and the screen, that it is run on here.

        Raises UsageError for words that name no device, or a config without one.
        """
        from devices import specs
        from devices.config import PoolConfig
        from guiagent.client.still import STILL
        from guiagent.config import load

        if self.config is not None and self.pool is not None:
            raise UsageError("--config starts a pool and --pool names a running one: leave one out")
        if self.guardrails is not None:
            if self.config is not None or self.pool is not None or suite.device == STILL:
                raise UsageError("--guardrails starts a pool with rules: leave --config and --pool out")
            if load(PoolConfig, self.guardrails).guardrails is None:
                raise UsageError(f"{self.guardrails} has no [guardrails], as docs/farm.md shows them")
        if (self.device or self.config or self.pool) and suite.device == STILL:
            raise UsageError(f"suite {suite.name} is of pictures, which need no device")
        offered: Sequence[DeviceConfig] = specs.parse([self.device]) if self.device else ()
        if self.config is not None:
            named = {one.offers for one in offered}
            offered = load(PoolConfig, self.config).devices
            if named and not named & {one.offers for one in offered}:
                raise UsageError(f"{self.config} has no {self.device}")
            offered = [one for one in offered if one.offers in (named or {suite.device})] or offered
        if not offered:
            return suite
        return replace(suite, device=offered[0].offers, screen=offered[0].size)

    def words(self, suite: "Suite", devices: int) -> list[str]:
        """The words for `guiagent up` that start so many devices, where no pool is named."""
        if self.config is not None:
            return ["--config", str(self.config)]
        width, height = suite.screen
        sites = f",sites={'+'.join(suite.sites)}" if suite.sites else ""
        word = self.device or f"{suite.device}@{width}x{height}"
        counted = word if "=" in word else re.sub(r"(?=[@,]|$)", f"={devices}", word, count=1)
        return [counted + sites, *(["--config", str(self.guardrails)] if self.guardrails else [])]


HERE = Place()
