"""Defects seeded on purpose, each in one place: drills that do not notice them prove nothing.

The one named by $GUIAGENT_DRILL_MUTANT is seeded into every process of a drill.
"""

import asyncio
import contextlib
import importlib
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

NAMED = "GUIAGENT_DRILL_MUTANT"


class Mutant(NamedTuple):
    """A defect, and the drill with its size that has to find it."""

    what: str
    seed: Callable[[], None]
    drill: str
    n: int


def name(mutant: str) -> None:
    """Have this defect seeded here and in every process that is started from here."""
    os.environ[NAMED] = mutant


def seed() -> None:
    """Seed the defect that the environment names, if it names one."""
    if named := os.environ.get(NAMED):
        MUTANTS[named].seed()


def _replace(place: str, attribute: str, new: Callable[[Any], Any]) -> None:
    """Put `new(old)` for what is called `attribute` at `place`, a module or a class; it must be there."""
    module, _, kind = place.partition(":")
    owner: Any = importlib.import_module(module)
    owner = getattr(owner, kind) if kind else owner
    setattr(owner, attribute, new(getattr(owner, attribute)))


def _ack_first() -> None:
    from devices.leases import Event
    from devices.pool.store import Store

    commit = Store.commit

    def at_once(self: Store, events: Iterable[Event] = ()) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        loop.call_later(0.5, commit, self, tuple(events))
        done: asyncio.Future[None] = loop.create_future()
        done.set_result(None)
        return done

    _replace("devices.pool.store:Store", "commit", lambda _: at_once)


def _no_fence() -> None:
    _replace("devices.hosts.local:DeviceHost", "_admit", lambda _: lambda *_: None)


def _no_keys() -> None:
    def always_new(call: Any) -> Any:
        async def called(self: Any, lease: Any, message: Any) -> Any:
            if hasattr(message, "key"):
                message = msgspec.structs.replace(message, key=secrets.token_hex(8))
            return await call(self, lease, message)

        return called

    _replace("devices.hosts.local:DeviceHost", "call", always_new)


def _forgotten_tokens() -> None:
    def forgetful(load: Any) -> Any:
        def loaded(self: Any) -> Any:
            past = load(self)
            past.tokens.clear()
            past.leases.clear()
            return past

        return loaded

    _replace("devices.pool.store:Store", "load", forgetful)


def _no_reaper() -> None:
    _replace("devices.pool.lease_table:Pool", "expire", lambda _: lambda *_: [])


def _no_reset() -> None:
    async def skipped(*_: object) -> None:
        pass

    _replace("devices.hosts.local:DeviceHost", "recycle", lambda _: skipped)


def _open_port() -> None:
    _replace("devices.api.server", "_listen", lambda listen: lambda host, port: listen("0.0.0.0", port))


def _name_first() -> None:
    """A checkpoint has its name before it is whole."""

    def unsealed(seal: Any) -> Any:
        def sealed(folder: Path, *others: Any) -> None:
            final = folder.with_name(folder.name.removeprefix(".tmp-"))
            folder.rename(final)
            seal(final, *others)
            final.rename(folder)

        return sealed

    _replace("training.checkpoints.checkpoint", "_seal", unsealed)


def _plain_write() -> None:
    """The store is written over in place, without a journal."""

    def in_place(open_: Any) -> Any:
        def opened(self: Any) -> None:
            open_(self)
            for mode in ("DELETE", "OFF"):
                self._db.execute(f"PRAGMA journal_mode = {mode}")

        return opened

    _replace("devices.pool.store.sqlite:Sqlite", "_open", in_place)


def _judge_passes() -> None:
    def generous(read: Any) -> Any:
        def scored(*given: Any) -> Any:
            found = read(*given)
            return found if found.value is not None or found.abstains else type(found)(1.0)

        return scored

    _replace("rewards.judges.outcome", "read_score", generous)


def _judge_hears() -> None:
    """The agent's own words come before the judge."""

    def heard(case_of: Any) -> Any:
        def told(trajectory: Any, frame: Any) -> Any:
            case = case_of(trajectory, frame)
            words = " ".join(step.policy.text for step in trajectory.steps)
            return msgspec.structs.replace(case, instruction=f"{case.instruction} {words}")

        return told

    _replace("rewards.judges.cases", "case_of", heard)


def _evaluates() -> None:
    """The arguments of an action are evaluated."""

    def evaluating(parse: Any) -> Any:
        def parsed(self: Any, text: str, size: tuple[int, int]) -> Any:
            inside = text.partition("(")[2].rpartition(")")[0]
            with contextlib.suppress(Exception):
                eval(inside.partition("=")[2] or "0")  # noqa: S307 - the defect
            return parse(self, text, size)

        return parsed

    _replace("guiagent.dialects.ui_tars:UiTars", "parse", evaluating)


MUTANTS: dict[str, Mutant] = {
    "no-fence": Mutant("the host lets old tokens through", _no_fence, "calls", 150),
    "ack-first": Mutant("a grant is acknowledged before it is stored", _ack_first, "kills", 3),
    "no-keys": Mutant("a repeated request is done again", _no_keys, "calls", 150),
    "forgotten-tokens": Mutant("a restart forgets tokens and leases", _forgotten_tokens, "kills", 3),
    "no-reaper": Mutant("leases never run out", _no_reaper, "reclaim", 8),
    "name-first": Mutant("a checkpoint is named before it is whole", _name_first, "crashes", 1000),
    "plain-write": Mutant("the store is written over in place", _plain_write, "store", 30),
    "judge-passes": Mutant("what a judge cannot read is a pass", _judge_passes, "judge", 300),
    "judge-hears": Mutant("the judge reads the agent's words", _judge_hears, "judge", 300),
    "evaluates": Mutant("a parser evaluates a model's text", _evaluates, "parsers", 1),
    "open-port": Mutant("the pool listens on every address", _open_port, "listeners", 1),
    "no-reset": Mutant("a device is passed on as it was left", _no_reset, "residue", 16),
}
