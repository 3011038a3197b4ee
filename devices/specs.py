"""Parses devices on a command line: `browser=4@1280x720`, `phone=2`, `android:SERIAL,unlimited_egress`."""

import re
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter, ValidationError

from devices.config import AnyDeviceConfig
from guiagent.errors import UsageError, first_error

_WORD = re.compile(
    r"(?P<kind>[a-z]+)(?P<source>:(avd=)?[^@=,]+)?(=(?P<count>\d+))?(@(?P<width>\d+)x(?P<height>\d+))?"
    r"(?P<switches>(,[a-z_]+(=[a-z0-9+-]+)?)*)"
)
_CONFIG: TypeAdapter[AnyDeviceConfig] = TypeAdapter(AnyDeviceConfig)
_SHAPE = (
    "KIND[:SOURCE][=COUNT][@WIDTHxHEIGHT][,SWITCH...], such as browser=4@1280x720, browser,sites=data, "
    "android:SERIAL,unlimited_egress or android:avd=NAME,unlimited_egress"
)


def parse(words: Iterable[str]) -> list[AnyDeviceConfig]:
    """Parse each word to a device config. Raises UsageError, which names the word."""
    return [_config(word) for word in words]


def _config(word: str) -> AnyDeviceConfig:
    match = _WORD.fullmatch(word)
    if match is None:
        raise UsageError(f"{word[:80]!r} names no devices; write {_SHAPE}")
    fields: dict[str, Any] = dict(map(_switch, match["switches"].split(",")[1:]))
    fields |= {key: int(value) for key in ("count", "width", "height") if (value := match[key]) is not None}
    try:
        return _CONFIG.validate_python(
            {"kind": match["kind"], **fields, **_source(match["kind"], match["source"])}
        )
    except ValidationError as error:
        raise UsageError(f"{word!r}: {first_error(error.errors(), skip=1)}") from error


def _switch(text: str) -> tuple[str, bool | list[str]]:
    """A config field that is set, or, after "=", one that is a list: `sites=tracker+wiki`."""
    name, equals, values = text.partition("=")
    return name, values.split("+") if equals else True


def _source(kind: str, source: str | None) -> dict[str, str]:
    """The config field after the colon: an adb serial or avd, or a VM's image."""
    if source is None:
        return {}
    name, equals, value = source[1:].partition("=")
    if kind == "android":
        return {name: value} if equals else {"serial": name}
    if kind == "vm" and not equals:
        return {"image": name}
    raise UsageError(
        f"{kind} devices have no {source!r}; more can be said in a config file: --config FARM.toml"
    )
