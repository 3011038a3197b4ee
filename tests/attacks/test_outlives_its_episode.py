"""An outside agent wants a program of its own to go on after its episode, in a session of its own."""

import contextlib
import os
import time
from pathlib import Path

from tests.training.test_outside_agent import Lamp, agents, play
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder

PROGRAM = """
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
open({path!r}, "w").write(str(child.pid))
"""


def runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


async def test_what_an_agent_started_in_another_session_ends_with_its_episode(
    checkpoint: Path, tmp_path: Path
) -> None:
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=4), seed=2)
    told = tmp_path / "pid"
    try:
        async with agents(policy, PROGRAM.format(path=str(told))) as playing:
            assert (await play(playing, Lamp())).fault is None
        pid = int(told.read_text())
        until = time.monotonic() + 5
        while runs(pid) and time.monotonic() < until:  # a signal takes its moment
            os.sched_yield()
        assert not runs(pid)
    finally:
        policy.close()
        if told.exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(told.read_text()), 9)
