"""A file that no parser gets through, or that takes one over, holds the grader up or reads its host."""

import asyncio
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guiagent import sandbox
from guiagent.protocols import Services
from rewards.checks import getters, grading, interpreter
from rewards.checks.assets import Assets
from rewards.checks.grading import pool
from rewards.checks.guest import Guest
from rewards.checks.workspace import Workspace
from rewards.tasksets.osworld import task
from rewards.tasksets.osworld.schema import Check, Source
from tests.support.sandboxes import ATTEMPTS, ESCAPES, SECRET

SEES = """
def sees_the_host():
    paths = [*%r, "/etc/passwd", "/etc/shadow", "/root/.ssh", "/home"]
    names = [name for _, name in socket.if_nameindex()]
    return "SECRET_OF_THE_HOST" in os.environ or names != ["lo"] or any(map(os.path.exists, paths))
"""


class NoGuest(Services):
    """A device that nobody asks."""


def pdf(pages: int, operators: int) -> bytes:
    """Pages that all show the same stream of operators."""
    body = zlib.compress(b"q 1 0 0 1 0 0 cm Q " * operators + b"BT () Tj ET")
    kids = b" ".join(b"%d 0 R" % (4 + page) for page in range(pages))
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Resources<</Font<</F 1 0 R>>>>/Contents 3 0 R>>"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%s]>>" % (pages, kids),
        b"<</Length %d/Filter/FlateDecode>>stream\n" % len(body) + body + b"\nendstream",
        *[page] * pages,
    ]
    out, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n" % number + content + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    head = b"xref\n0 %d\n0000000000 65535 f \n" % size
    return out + head + table + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (size, len(out))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(
        Guest(NoGuest()), Assets(tmp_path / "cache", None, False), tmp_path, tmp_path, (800, 600)
    )


def check(func: str, made: str, gold: str, **options: Any) -> Check:
    """A metric of two files that are in the workspace already; the gold one counts as an agent's, too."""
    sources = [Source("cache_file", getters.parse("cache_file", {"path": name})) for name in (made, gold)]
    return Check(func, *sources, options)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(pool, "SECONDS", 1)
    yield


async def test_a_file_that_takes_too_long_scores_0_and_says_so(workspace: Workspace) -> None:
    workspace.result("made.pdf").write_bytes(pdf(6, 20_000))
    workspace.result("gold.pdf").write_bytes(pdf(1, 1))
    assert await task._value(workspace, check("compare_pdfs", "made.pdf", "gold.pdf")) == 0.0
    assert len(workspace.notes) == 1
    assert "compare_pdfs" in workspace.notes[0] and "processor time" in workspace.notes[0]


@pytest.mark.parametrize("attempt", [*ATTEMPTS, "sees_the_host"])
def test_whoever_takes_a_parser_over_is_in_a_sandbox(
    attempt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parsers run under the plan of `pool`, here with the attack in their place."""
    monkeypatch.setenv(SECRET, "canary")
    canary = tmp_path / "canary"
    canary.touch()
    plan = interpreter.plan(pool.WORKER, (), pool._DISK, pool._LIMITS, {})
    code = plan["command"].index("-c") + 1
    plan["command"][code] = f"{ESCAPES}{SEES % [str(canary)]}print({attempt}())"
    done = subprocess.run(sandbox.command(plan), capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


async def test_one_sandbox_computes_one_metric_after_another(workspace: Workspace) -> None:
    for name in ("one.txt", "two.txt"):
        workspace.result(name).write_text("the same")
    for _ in range(3):
        assert await task._value(workspace, check("compare_text_file", "one.txt", "two.txt")) == 1.0
    assert not workspace.notes


async def test_a_worker_that_dies_is_replaced() -> None:
    assert await grading.grade("exact_match", ["a", {"expected": "a"}], {}) == 1.0
    for one in pool._idle:
        one.kill()
        one._process.wait()
    assert await grading.grade("exact_match", ["a", {"expected": "a"}], {}) == 1.0


async def test_a_cancelled_grading_ends_its_process(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "SECONDS", 60)
    workspace.result("made.pdf").write_bytes(pdf(100, 20_000))
    workspace.result("gold.pdf").write_bytes(pdf(1, 1))
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    ask = pool.Worker.ask
    workers = []

    def told(self: pool.Worker, *parts: Any) -> Any:
        workers.append(self)
        loop.call_soon_threadsafe(asked.set)
        return ask(self, *parts)

    monkeypatch.setattr(pool.Worker, "ask", told)
    grading_ = asyncio.create_task(task._value(workspace, check("compare_pdfs", "made.pdf", "gold.pdf")))
    await asked.wait()
    grading_.cancel()
    with pytest.raises(asyncio.CancelledError):
        await grading_
    assert await asyncio.to_thread(workers[0]._process.wait, 10) != 0
