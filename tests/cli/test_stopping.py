"""Audits and evaluations that are asked to stop say what they have, give their devices back, and end soon."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from eval.suites import find_suite
from guiagent.cli.common.place import Place
from guiagent.cli.common.stopping import cancelled_by_signals
from guiagent.cli.evaluate.audit import audit_suite
from guiagent.client import local_pool
from guiagent.client.local_pool import pool_beside
from guiagent.errors import UsageError

_SOON_S = 10.0


def _in_the_background(temporary: Path, *words: str) -> "subprocess.Popen[str]":
    """Start a command as a shell starts what ends with `&`: with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "guiagent.cli", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"},
        )
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
def test_an_audit_that_is_stopped_says_what_it_proved(tmp_path: Path) -> None:
    with _in_the_background(tmp_path, "tasks", "audit", "lab") as audit:
        late = threading.Timer(_SOON_S, audit.kill)
        try:
            assert audit.stdout is not None and audit.stderr is not None
            assert "sound: oracle 1" in audit.stdout.readline()
            late.start()
            audit.send_signal(signal.SIGINT)
            # `communicate` would leave out the lines that were read along with the first one.
            printed, said = audit.stdout.read(), audit.stderr.read()
        finally:
            late.cancel()
            audit.kill()
    assert audit.returncode == 130
    *more, total = printed.splitlines()
    proved, proofs = len(more) + 1, 3 * len(find_suite("lab").tasks)
    assert total.startswith(f"{proved} proofs, {proved} sound, in ")
    assert f"stopped with {proofs - proved} of {proofs} proofs to do" in said
    assert list(tmp_path.glob("guiagent-pool-*")) == []  # its pool ended before it, in order


def test_an_audit_goes_on_from_the_proofs_in_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = find_suite("lab").tasks[:2]
    assert audit_suite("lab", [first], seeds=1, devices=1, folder=tmp_path)
    [row, _] = capsys.readouterr().out.splitlines()
    with (tmp_path / "proofs.jsonl").open("ab") as file:
        file.write(b'{"suite": "torn by a ki')

    assert audit_suite("lab", [first, second], seeds=1, devices=1, folder=tmp_path)
    known, new, total = capsys.readouterr().out.splitlines()
    assert known == row and new.startswith(f"{second}  seed ")
    assert total.startswith("2 proofs, 2 sound, 1 of them kept from before, in ")

    others = "another version of the suite, of other agents, or on other devices"
    with pytest.raises(UsageError, match=others):
        audit_suite("lab", [first], seeds=1, devices=1, folder=tmp_path, exploits=False)
    with pytest.raises(UsageError, match=others):
        audit_suite("lab", [first], seeds=1, devices=1, folder=tmp_path, place=Place("lab@240x320"))


def test_an_evaluation_that_is_stopped_goes_on_later(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["eval", "--suite", "lab", "--policy", "random", "--baselines", "none", "--run", str(run)]
    with _in_the_background(tmp_path, *words) as evaluation:
        try:
            give_up = time.monotonic() + 60
            while not list(run.glob("random/trajectories/segment-*")) and time.monotonic() < give_up:
                time.sleep(0.1)
            evaluation.send_signal(signal.SIGINT)
            _, said = evaluation.communicate(timeout=_SOON_S)
        finally:
            evaluation.kill()
    assert (evaluation.returncode, said.splitlines()[-1]) == (
        130,
        "guiagent: interrupted; the same command goes on from here",
    )
    assert list(tmp_path.glob("guiagent-pool-*")) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_either_signal_cancels_the_task(number: signal.Signals) -> None:
    async def work() -> None:
        with cancelled_by_signals():
            os.kill(os.getpid(), number)
            await asyncio.sleep(_SOON_S)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(work())


@pytest.mark.asyncio
async def test_who_waits_for_a_pool_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[subprocess.Popen[bytes]] = []
    stop = local_pool._stop

    def noted(child: "subprocess.Popen[bytes]") -> None:
        stopped.append(child)
        stop(child)

    monkeypatch.setattr(local_pool, "read_endpoint", lambda folder: None)  # it is never up
    monkeypatch.setattr(local_pool, "_stop", noted)

    async def wait() -> None:
        async with pool_beside("lab"):
            pass

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0.3)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(waiting, _SOON_S)
    assert [child.poll() is None for child in stopped] == [False]
