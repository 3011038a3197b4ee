"""Episodes of an outside agent: what it may do, how it ends, and that its failures are faults."""

import asyncio
import contextlib
import io
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
import xxhash
from PIL import Image

from guiagent.errors import Fault, FaultError
from guiagent.types import Ending, Observation, ObserveSpec, Score, Trajectory
from training.config import AgentConfig
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.contexts import contexts
from training.inputs.encoder import Encoder
from training.replay import EpisodeRequest
from training.rollout.outside import OutsideAgents

HEAD = """
import base64, json, os, subprocess, sys, time, urllib.request
def post(url, body):
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
        return json.load(answer)
screen = os.environ["GUIAGENT_DEVICE_URL"]
def ask(model, shown):
    url = "data:" + shown["media_type"] + ";base64," + shown["frame"]
    content = [{"type": "text", "text": model + os.environ["GUIAGENT_INSTRUCTION"]},
               {"type": "image_url", "image_url": {"url": url}}]
    body = {"model": model, "messages": [{"role": "user", "content": content}]}
    return post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)
shown = post(screen + "/observe", {})
"""
CLICK = {"type": "click", "x": 3, "y": 4}


class Lamp:
    """A device that shows another picture after every click, and a task that wants some clicks."""

    id, token, features = "lamp-0", 1, frozenset[str]()
    seed, max_steps, probes = 7, 9, {}

    def __init__(
        self, wanted: int = 2, closes: bool = False, broken: bool = False, bug: Exception | None = None
    ) -> None:
        self.clicks: list[object] = []
        self.wanted, self.closes, self.broken, self.bug = wanted, closes, broken, bug
        self.checked: Ending | None = None

    async def observe(self, spec: ObserveSpec) -> Observation:
        data = io.BytesIO()
        Image.new("RGB", (64, 64), (40 * len(self.clicks), 90, 10)).save(data, "PNG")
        return Observation.of((64, 64), data.getvalue(), spec)

    async def act(self, actions: Sequence[object], spec: ObserveSpec) -> Observation:
        if self.broken:
            raise FaultError(Fault("device", "crashed", "the lamp broke"))
        self.clicks += actions
        return await self.observe(spec)

    async def setup(self, device: "Lamp", spec: ObserveSpec) -> tuple[str, Observation]:
        return "Click.", await self.observe(spec)

    def ended(self, shown: Observation) -> bool:
        return self.closes and len(self.clicks) >= self.wanted

    async def check(self, device: "Lamp", shown: Observation, ending: Ending) -> Score:
        self.checked = ending
        if self.bug is not None:
            raise self.bug
        return Score(float(len(self.clicks) >= self.wanted))

    async def teardown(self, device: "Lamp") -> None: ...


@pytest.fixture(scope="module")
def policy(checkpoint: Path) -> Iterator[LocalPolicy]:
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=4), seed=2)
    yield policy
    policy.close()


@contextlib.asynccontextmanager
async def agents(policy: LocalPolicy, program: str, timeout_s: float = 60.0) -> AsyncIterator[OutsideAgents]:
    config = AgentConfig(command=(sys.executable, "-c", HEAD + program), timeout_s=timeout_s)
    found = OutsideAgents(config, policy)
    try:
        yield found
    finally:
        await found.close()


async def play(agents: OutsideAgents, lamp: Lamp, max_steps: int = 5) -> Trajectory:
    request = EpisodeRequest("g", "lamp", 7, 1, 4)
    return await agents.play(
        lamp,
        lamp,
        request,
        keep_frame=xxhash.xxh3_128_hexdigest,
        spec=ObserveSpec("png"),
        max_steps=max_steps,
    )


async def test_an_agent_of_two_models_plays_an_episode_that_the_check_scores(policy):
    program = f"""
for _ in range(2):
    ask("planner", shown)
    ask("executor", shown)
    shown = post(screen + "/act", [{CLICK!r}])
"""
    lamp = Lamp()
    async with agents(policy, program) as playing:
        one = await play(playing, lamp)
    assert one.fault is None and one.score == Score(1.0) and one.stop == "agent_done"
    assert (one.instruction, one.seed, one.group, one.group_index, one.group_size) == ("Click.", 7, "g", 1, 4)
    assert [[call.role for call in step.policy.calls] for step in one.steps] == [["planner", "executor"]] * 2
    assert [step.policy.actions[0]["type"] for step in one.steps] == ["click", "click"]
    assert len({step.frame for step in one.steps} | {one.final_frame}) == 3
    assert len(contexts(one)) == 4 and all(any(context.sampled) for context in contexts(one))


async def test_what_the_agent_says_at_the_end_is_its_ending(policy):
    program = """
ask("m", shown)
shown = post(screen + "/act", [{"type": "answer", "text": "42"}, {"type": "done", "status": "success"}])
assert shown["over"]
time.sleep(60)
"""
    lamp = Lamp()
    async with agents(policy, program) as playing:
        one = await play(playing, lamp)
    assert lamp.checked == one.ending == Ending("42", "success")
    assert one.stop == "agent_done" and one.false_completion


@pytest.mark.parametrize(("closes", "stop", "clicks"), [(True, "task_done", 2), (False, "max_steps", 3)])
async def test_an_episode_ends_with_its_task_or_its_last_turn(policy, closes, stop, clicks):
    program = f"""
while True:
    ask("m", shown)
    shown = post(screen + "/act", [{CLICK!r}])
"""
    lamp = Lamp(closes=closes)
    async with agents(policy, program) as playing:
        one = await play(playing, lamp, max_steps=3)
    assert (one.stop, len(lamp.clicks), len(one.steps)) == (stop, clicks, clicks)
    assert one.success and one.fault is None


@pytest.mark.parametrize(
    ("program", "code", "says"),
    [
        ("ask('m', shown)\nraise ValueError('no such button')", "agent_crashed", "no such button"),
        ("time.sleep(60)", "agent_timeout", "no end within"),
    ],
)
async def test_an_agent_that_fails_is_a_fault_of_the_policy_and_never_a_score(policy, program, code, says):
    lamp = Lamp(wanted=0)  # the check would score it 1
    async with agents(policy, program, timeout_s=60 if code == "agent_crashed" else 1.0) as playing:
        one = await play(playing, lamp)
    assert one.stop == "fault" and one.score is None and lamp.checked is None and not one.valid
    assert (one.fault.origin, one.fault.code) == ("policy", code) and says in one.fault.message


async def test_a_device_that_fails_under_the_agent_is_the_devices_fault(policy):
    lamp = Lamp(broken=True)
    async with agents(policy, f"post(screen + '/act', [{CLICK!r}])") as playing:
        one = await play(playing, lamp)
    assert (one.fault.origin, one.fault.code, one.score) == ("device", "crashed", None)


async def test_an_error_that_the_check_did_not_expect_is_a_fault(policy):
    async with agents(policy, "pass") as playing:
        one = await play(playing, Lamp(bug=ValueError("no number")))
    assert (one.stop, one.fault.origin, one.fault.code, one.score) == ("fault", "task", "check_failed", None)


async def test_a_program_that_is_not_there_is_a_fault(policy):
    playing = OutsideAgents(AgentConfig(command=("no-such-agent",)), policy)
    one = await play(playing, Lamp())
    await playing.close()
    assert one.fault.origin == "policy" and "no-such-agent" in one.fault.message


async def test_an_agent_ends_with_its_children_and_gets_no_secrets(policy, tmp_path, monkeypatch):
    """The pipe ends when nobody is left who could write to it."""
    monkeypatch.setenv("GUIAGENT_TOKEN", "the pool's")
    os.mkfifo(pipe := tmp_path / "pipe")
    program = f"""
pipe = open({str(pipe)!r}, "w")
pipe.write(" ".join(os.environ))
pipe.flush()
subprocess.Popen(["sleep", "300"], stdout=pipe)
post(screen + "/act", [{{"type": "done", "status": "failure"}}])
time.sleep(300)
"""
    reading = asyncio.create_task(asyncio.to_thread(pipe.read_text))
    async with agents(policy, program) as playing:
        one = await play(playing, Lamp())
    told = await asyncio.wait_for(reading, 30)
    assert one.ending.claim == "failure"
    assert "OPENAI_API_KEY" in told.split() and "GUIAGENT_TOKEN" not in told.split()


async def test_a_cancelled_episode_leaves_no_program(policy, tmp_path):
    os.mkfifo(pipe := tmp_path / "pipe")
    program = f"pipe = open({str(pipe)!r}, 'w')\npipe.write('here')\npipe.flush()\ntime.sleep(300)"
    async with agents(policy, program) as playing:
        episode = asyncio.create_task(play(playing, Lamp()))
        with await asyncio.to_thread(pipe.open) as reading:
            assert await asyncio.to_thread(reading.read, 4) == "here"
            episode.cancel()
            with pytest.raises(asyncio.CancelledError):
                await episode
            assert await asyncio.wait_for(asyncio.to_thread(reading.read), 30) == ""
