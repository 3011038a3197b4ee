"""Leftovers of a killed owner are swept; a container's processes, visible from its host, are not."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from devices import owned, processes
from devices.drivers import browser, vm
from devices.drivers.desktop import sandbox

# Becomes the process that is looked for; the one around it, in this namespace, has no telling command line.
BECOME = "import json, os, sys; os.execv(sys.executable, json.loads(os.environ['WORDS']))"
WAITING = ["-c", "import time; print(flush=True); time.sleep(600)"]
DEAD = "999999999-1-gone"
BROWSER = "--user-data-dir={place}/guiagent-browser-{dead}/profile"


def owned_sweep() -> int:
    return owned.sweep("adb")


@pytest.mark.parametrize(
    ("words", "sweep"),
    [
        (["adb", *WAITING, "{place}/guiagent-adb-{dead}"], owned_sweep),
        (["chromium", *WAITING, "--remote-debugging-pipe", BROWSER], browser.sweep),
        (["qemu", *WAITING, "-name", "guiagent-vm-{dead}"], vm.sweep),
        (["xterm", *WAITING], sandbox.sweep),  # known by its environment
    ],
    ids=["a driver's", "browsers", "virtual machines", "desktops"],
)
@pytest.mark.parametrize("contained", [False, True], ids=["here", "in a container"])
def test_only_orphans_of_this_pid_namespace_are_ended(
    contained: bool, words: list[str], sweep: Callable[[], int]
) -> None:
    named = [word.replace("{place}", tempfile.gettempdir()).replace("{dead}", DEAD) for word in words]
    marked = ["env", "GUIAGENT_DESKTOP=/nowhere"] if sweep is sandbox.sweep else []
    container = (
        ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"] if contained else []
    )
    with subprocess.Popen(
        [*container, *marked, sys.executable, "-c", BECOME],
        stdout=subprocess.PIPE,
        env={**os.environ, "WORDS": json.dumps(named)},
        start_new_session=True,
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"\n", "no process in a namespace of its own"
        try:
            ended = sweep()
            assert (ended >= 1) is not contained
            if contained:
                time.sleep(0.1)
                assert started.poll() is None, "another container's process was ended"
            else:
                started.wait(10)
        finally:
            if started.poll() is None:
                owned.kill_group(started.pid)
    assert not list(Path(tempfile.gettempdir()).glob(f"guiagent-*-{DEAD}*"))


def test_a_folder_that_goes_while_users_are_counted_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    listed = iter([tmp_path / "gone", tmp_path / "here"])
    ids = iter([os.getuid(), 0x7100_0000])
    monkeypatch.setattr(owned, "folders", lambda: listed)
    monkeypatch.setattr(processes.secrets, "choice", lambda among: next(ids))
    assert processes._unused_id() == 0x7100_0000
