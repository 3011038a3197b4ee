"""Apps of the phone: folders with a `manifest.toml`, an `icon.svg`, scripts and styles."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from guiagent.errors import UsageError

BUILT_IN = Path(__file__).parent / "apps"
_PACKAGE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_FILE = re.compile(r"[a-z][a-z0-9_.]*/databases/[A-Za-z0-9_.]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Activity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A screen that other apps may start: by name, or by an intent's action and its data's scheme or type."""

    name: str
    actions: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class Database(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An SQLite database: SQL `schema`, and `file`, `<package>/databases/<name>` below data/data."""

    file: str
    schema: str


class Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A content URI over one table.

    `columns` maps public names to the table's own; empty means all of them. `match` holds the column values
    that all rows under this URI share: reads are limited to them, inserts set them. `read` and `write` name
    the permissions that other apps need; if empty, only the owner has access.
    """

    uri: str
    table: str
    columns: dict[str, str] = {}
    match: dict[str, int | str] = {}
    read: str = ""
    write: str = ""


class Seed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Initial rows of a table, drawn at every reset; `seeds.py` lists the forms of a column."""

    table: str
    count: tuple[int, int] | int
    pool: list[dict[str, Any]] = []
    columns: dict[str, Any] = {}


class SeedFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Initial files: `count` of those in `pool` (0: all), written below `folder` of the shared storage."""

    folder: str
    count: tuple[int, int] | int = 0
    pool: dict[str, str] = {}


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    package: str
    label: str
    version: str
    color: str
    activity: list[Activity]
    permissions: list[str] = []
    hidden: bool = False
    settings: dict[str, dict[str, str]] = {}
    database: list[Database] = []
    provider: list[Provider] = []
    seed: list[Seed] = []
    files: list[SeedFiles] = []


class App(msgspec.Struct, frozen=True, dict=True):
    """Everything that the rest of the phone knows about an app; its icon starts the first activity."""

    package: str
    label: str
    version: str
    color: str
    folder: Path
    activities: tuple[Activity, ...]
    permissions: frozenset[str]
    hidden: bool
    settings: Mapping[str, Mapping[str, str]]
    databases: tuple[Database, ...]
    providers: tuple[Provider, ...]
    seeds: tuple[Seed, ...]
    files: tuple[SeedFiles, ...]

    @property
    def activity(self) -> str:
        return self.activities[0].name

    @cached_property
    def scripts(self) -> str:
        return _text(sorted(self.folder.glob("*.js")))

    @cached_property
    def styles(self) -> str:
        return _text(sorted(self.folder.glob("*.css")))

    @cached_property
    def icon(self) -> str:
        return _text([self.folder / "icon.svg"])


def load(folders: Iterable[Path]) -> dict[str, App]:
    """Load the apps in `folders`, by package; every subfolder with a manifest is an app.

    Raises UsageError for an invalid manifest, and for a package, database or URI that two apps claim.
    """
    found: dict[str, App] = {}
    for folder in folders:
        for manifest in sorted(folder.glob("*/manifest.toml")):
            app = read(manifest)
            if app.package in found:
                raise UsageError(f"{manifest}: the package {app.package} is also {found[app.package].folder}")
            found[app.package] = app
    _one_owner_each(found.values())
    return found


def read(manifest: Path) -> App:
    try:
        given = msgspec.convert(tomllib.loads(manifest.read_text()), _Manifest)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{manifest}: {error}") from None
    app = App(
        package=given.package,
        label=given.label,
        version=given.version,
        color=given.color,
        folder=manifest.parent,
        activities=tuple(given.activity),
        permissions=frozenset(given.permissions),
        hidden=given.hidden,
        settings=given.settings,
        databases=tuple(given.database),
        providers=tuple(given.provider),
        seeds=tuple(given.seed),
        files=tuple(given.files),
    )
    if problem := _problem(app):
        raise UsageError(f"{manifest}: {problem}")
    return app


def resolve(apps: Mapping[str, App], action: str, data: str = "", mime: str = "") -> tuple[str, str] | None:
    """Package and activity that handle an intent, or None; only the scheme of the URI `data` counts."""
    return next(handlers(apps, action, data, mime), None)


def handlers(
    apps: Mapping[str, App], action: str, data: str = "", mime: str = ""
) -> Iterator[tuple[str, str]]:
    """Every package and activity that could handle an intent, as `resolve` finds the first."""
    scheme = data.partition(":")[0] if ":" in data else ""
    for app in apps.values():
        for one in app.activities:
            fits = (not scheme or scheme in one.schemes) and (not mime or mime in one.types)
            if action in one.actions and fits:
                yield app.package, one.name


def _problem(app: App) -> str | None:
    names = [name for provider in app.providers for name in (provider.table, *provider.columns.values())]
    if not _PACKAGE.fullmatch(app.package):
        return f"{app.package!r} is no package name, such as org.example.notes"
    if not app.activities:
        return "an app has at least one [[activity]]"
    if unknown := sorted(app.settings.keys() - {"system", "secure", "global"}):
        return f"settings are system, secure or global, not {unknown[0]!r}"
    for database in app.databases:
        if not _FILE.fullmatch(database.file):
            return f"a database's file is PACKAGE/databases/NAME, not {database.file!r}"
    for name in names:
        if not _NAME.fullmatch(name):
            return f"{name!r} is no name of a table or column"
    for provider in app.providers:
        if not provider.uri.startswith("content://"):
            return f"a provider's uri begins with content://, not {provider.uri!r}"
    return None


def _one_owner_each(apps: Iterable[App]) -> None:
    owners: dict[str, str] = {}
    for app in apps:
        for name in [database.file for database in app.databases] + [one.uri for one in app.providers]:
            if owners.setdefault(name, app.package) != app.package:
                raise UsageError(f"both {owners[name]} and {app.package} want to own {name}")


def _text(files: Iterable[Path]) -> str:
    return "\n".join(file.read_text() for file in files)
