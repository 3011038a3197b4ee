"""A real vLLM server with the small policy: the tokens of the other engine, new weights, broken ones, its
death.
"""

# ruff: noqa: ASYNC110, ASYNC210, ASYNC220, ASYNC240 - nothing else runs on the loop
import asyncio
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from peft import get_peft_model_state_dict
from safetensors.torch import load_file, save_file

from guiagent.errors import FaultError, InfrastructureError
from tests.support.conversing import converse, furthest, screen
from training.config import SMALL_POLICY, LoraConfig
from training.engine.engine import Completion, Request
from training.engine.policy import EnginePolicy, LocalPolicy
from training.engine.sampling import Sampling
from training.engine.vllm import protocol
from training.engine.vllm.engine import VllmEngine
from training.engine.vllm.frames import PATH
from training.engine.vllm.replica import RemoteServer
from training.engine.vllm.server import ENVIRONMENT, ServerConfig, VllmServer
from training.engine.vllm.worker import record
from training.engine.weights import SHARED_MEMORY, WeightWriter, Written, shared_memory_folder
from training.inputs.collate import rope_positions
from training.inputs.encoder import Encoder
from training.inputs.pictures import pixel_values
from training.model import lora as adapters
from training.model.pretrained import open_model
from training.tiny.model import MERGE

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        not (ENVIRONMENT / "installed").is_file(), reason="vLLM is not installed: scripts/vllm"
    ),
]
CLOSE = 1e-4  # of a log-probability, between two float32 implementations of one model
CONTEXT = 2048
SHORT = Sampling(max_new_tokens=16)
LONG = Sampling(max_new_tokens=1500)
State = dict[str, torch.Tensor]


class Served:
    """One server, and two engines that sample from it: greedily, and at temperature 1."""

    def __init__(self, folder: Path, writer: WeightWriter | None = None) -> None:
        torch.set_num_threads(1)
        self.encoder = Encoder(SMALL_POLICY)
        self.server = VllmServer(ServerConfig(SMALL_POLICY, folder / "vllm.log"))
        self.writer = writer or WeightWriter(folder / "weights", SMALL_POLICY)
        self.greedy = VllmEngine(
            [self.server],
            self.encoder,
            self.writer,
            Sampling(temperature=0, max_new_tokens=16),
            max_context=CONTEXT,
        )
        self.base = weights()

    def sampling(self, folder: Path, sampling: Sampling = SHORT) -> VllmEngine:
        return VllmEngine(
            [RemoteServer(self.server.url, self.server.token)],
            self.encoder,
            WeightWriter(folder, SMALL_POLICY),
            sampling,
            max_context=CONTEXT,
        )

    async def load(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        await asyncio.to_thread(self.greedy.load_weights, state, version)

    async def replies(self, name: str) -> list[list[int]]:
        """A greedy episode of three turns."""
        turns = await converse(EnginePolicy(self.encoder, self.greedy), name, [screen(i) for i in range(3)])
        return [turn.output.completion_ids for turn in turns]


def weights() -> State:
    """The small policy's as they are computed with: in its file they are halves."""
    return {name: one.float() for name, one in load_file(SMALL_POLICY / "model.safetensors").items()}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("vllm"))
    yield served
    served.greedy.close()


@pytest.fixture(scope="module")
def local() -> Iterator[LocalPolicy]:
    local = LocalPolicy(Encoder(SMALL_POLICY), Sampling(temperature=0, max_new_tokens=16))
    yield local
    local.close()


def moved(base: State, seed: int, by: float = 0.02) -> State:
    generator = torch.Generator().manual_seed(seed)
    return {name: w + by * torch.randn(w.shape, generator=generator) for name, w in base.items()}


async def test_the_tokens_are_those_of_the_in_process_engine(served, local, tmp_path):
    """Greedy replies over turns with screenshots of several sizes, one of which is resized on the way."""
    screens = [screen(i, size) for i, size in enumerate([(96, 64), (160, 224), (150, 101), (1400, 900)])]
    theirs = await converse(EnginePolicy(served.encoder, served.greedy), "e", screens)
    ours = await converse(local, "e", screens)
    assert [turn.output.prompt_ids for turn in theirs] == [turn.output.prompt_ids for turn in ours]
    assert [turn.output.completion_ids for turn in theirs] == [turn.output.completion_ids for turn in ours]
    assert [turn.output.logprobs for turn in theirs] == [turn.output.logprobs for turn in ours]

    engine = served.sampling(tmp_path)
    policy = EnginePolicy(served.encoder, engine)
    episodes = await asyncio.gather(*(converse(policy, f"s{i}", screens[:3]) for i in range(8)))
    assert max(furthest(local, turns) for turns in episodes) < CLOSE
    assert len({str(turns[0].output.completion_ids) for turns in episodes}) > 1
    unsampled = set(served.encoder.unsampled)
    assert not unsampled & {t for turns in episodes for turn in turns for t in turn.output.completion_ids}
    engine.close()


async def test_a_server_narrows_what_it_draws_and_says_nothing_of_the_policy(served, local, tmp_path):
    """A nucleus of the likeliest token is greedy sampling; a penalty of 2 keeps tokens from coming twice."""
    screens = [screen(i) for i in range(3)]
    ours = await converse(local, "n", screens)
    engine = served.sampling(tmp_path / "p", replace(SHORT, top_p=1e-6))
    theirs = await converse(EnginePolicy(served.encoder, engine), "n", screens)
    engine.close()
    assert [t.output.completion_ids for t in theirs] == [t.output.completion_ids for t in ours]
    assert all(math.isnan(logprob) for turn in theirs for logprob in turn.output.logprobs)

    repeats = []
    for penalty in (0.0, 2.0):
        engine = served.sampling(tmp_path / str(penalty), replace(SHORT, frequency_penalty=penalty))
        turns = await converse(EnginePolicy(served.encoder, engine), "f", screens)
        engine.close()
        repeats.append(sum(len(ids) - len(set(ids)) for t in turns if (ids := t.output.completion_ids)))
    assert repeats[1] < repeats[0]


@pytest.mark.parametrize("where", ["path", "memory"])
async def test_new_weights_are_sampled_from_and_the_old_ones_again(served, local, tmp_path, where):
    """Every tensor changes, the tied head with its embedding."""
    if where == "memory":
        if not SHARED_MEMORY.is_dir():
            pytest.skip("there is no shared memory")
        served.greedy._writer = WeightWriter(shared_memory_folder(tmp_path), SMALL_POLICY)
    before = await served.replies("a")
    state = moved(served.base, seed=3, by=0.05)
    await served.load(state, 7)
    after = await served.replies("a")
    assert after != before
    engine = served.sampling(tmp_path)
    await asyncio.to_thread(engine.load_weights, {}, 7)
    turns = await converse(EnginePolicy(served.encoder, engine), "b", [screen(i) for i in range(3)])
    assert [turn.output.policy_version for turn in turns] == [7, 7, 7]
    engine.close()
    local.engine.load_weights(state, 7)
    assert furthest(local, turns) < CLOSE
    local.engine.load_weights(served.base, 8)
    await served.load(served.base, 8)
    assert await served.replies("a") == before
    if where == "memory":
        served.greedy._writer.close()
        served.greedy._writer = served.writer


def truncate(weights: Written) -> None:
    os.truncate(weights.file, weights.file.stat().st_size - 1000)


def flip(weights: Written) -> None:
    raw = bytearray(weights.file.read_bytes())
    raw[-5000] ^= 1
    weights.file.write_bytes(raw)


def reshape(weights: Written) -> None:
    """A whole file of another model: its manifest agrees."""
    state = load_file(weights.file)
    name = "model.language_model.norm.weight"
    state[name] = state[name][:64].clone()
    save_file(state, weights.file)
    weights.manifest[name] = record(state[name])


def leave_out(weights: Written) -> None:
    state = load_file(weights.file)
    state.pop("model.language_model.norm.weight")
    save_file(state, weights.file)


def vanish(weights: Written) -> None:
    weights.file.unlink()


class Harmed(WeightWriter):
    harm = staticmethod(truncate)

    def write(self, state: Mapping[str, torch.Tensor], version: int) -> Written:
        weights = super().write(state, version)
        self.harm(weights)
        return weights


@pytest.mark.parametrize("harm", [truncate, flip, reshape, leave_out, vanish])
async def test_broken_weights_are_refused_and_the_old_ones_go_on(served, tmp_path, harm):
    before = await served.replies("a")
    version = served.greedy.version
    sound, harmed = served.greedy._writer, Harmed(tmp_path / "weights", SMALL_POLICY)
    harmed.harm = harm  # type: ignore[method-assign]
    served.greedy._writer = harmed
    pid = served.server.pid
    try:
        with pytest.raises(InfrastructureError, match="refused"):
            await served.load(moved(served.base, seed=4), version + 1)
    finally:
        served.greedy._writer = sound
    assert served.greedy.version == version
    assert await served.replies("a") == before
    assert served.server.pid == pid
    await served.load(served.base, version + 1)
    assert await served.replies("a") == before


async def test_a_completion_that_straddles_an_update_says_which_weights_sampled_what(served, tmp_path):
    """Its tokens' log-probabilities are the old weights' before, the new ones' from there on."""
    norm = "model.language_model.norm.weight"
    old = served.base | {norm: torch.full_like(served.base[norm], 0.05)}
    new = moved(served.base, seed=5) | {norm: old[norm]}
    await served.load(old, 20)
    engine = served.sampling(tmp_path, LONG)
    engine._params["logit_bias"][str(served.encoder.eos)] = -100.0  # and none ends before the update
    await asyncio.to_thread(engine.load_weights, {}, 20)
    picture = served.encoder.picture(screen(1).frame)
    prompt = served.encoder.first_prompt("x", picture)
    requests = [Request(f"r{i}", prompt, [screen(1).frame]) for i in range(8)]
    began = tokens_generated(served.server)
    sampling = [asyncio.create_task(engine.generate(request)) for request in requests]
    while await asyncio.to_thread(tokens_generated, served.server) < began + 100:
        await asyncio.sleep(0.05)
    await served.load(new, 21)
    completions = await asyncio.gather(*sampling)
    engine.close()
    straddling = [one for one in completions if len(one.versions) > 1]
    assert len(straddling) == len(requests)
    assert all([version for _, version in one.versions] == [20, 21] for one in straddling)
    by_version = {20: logprobs(old, served.encoder, requests[0], straddling[0])}
    by_version[21] = logprobs(new, served.encoder, requests[0], straddling[0])
    border = straddling[0].versions[1][0]
    plain = [*by_version[20][:border], *by_version[21][border:]]
    assert straddling[0].logprobs == pytest.approx(plain, abs=1e-3)
    assert by_version[20][border:] != pytest.approx(by_version[21][border:], abs=1e-2)
    await served.load(served.base, 22)


def tokens_generated(server: VllmServer) -> float:
    return metric(server, "generation_tokens_total")


def metric(server: VllmServer, name: str) -> float:
    headers = {"Authorization": f"Bearer {server.token}"}
    page = httpx.get(f"{server.url}/metrics", headers=headers, trust_env=False).text
    found = re.search(rf"^vllm:{name}\{{.*\}} (\S+)$", page, re.MULTILINE)
    assert found
    return float(found[1])


async def test_a_turn_sends_one_screenshot_and_the_server_knows_the_rest(served, tmp_path, monkeypatch):
    """Also of its cache of keys and values, as it says itself; after an update of that nothing is left."""
    sent: list[int] = []

    def body(request: Request, names: list[str], pictures: Mapping[str, bytes], *rest: Any) -> bytes:
        sent.append(len(pictures))
        return write(request, names, pictures, *rest)

    write = protocol.body
    monkeypatch.setattr(protocol, "body", body)
    engine = served.sampling(tmp_path)
    policy = EnginePolicy(served.encoder, engine)
    await asyncio.to_thread(engine.load_weights, {}, served.greedy.version)
    turns = await converse(policy, "w", [screen(100 + turn, (224, 224)) for turn in range(4)])
    assert sent == [1] * 4
    stats = engine.stats
    assert stats.sampled_tokens == sum(len(turn.output.completion_ids) for turn in turns)
    context = len(turns[0].output.prompt_ids)
    assert context < stats.cached_tokens < stats.prompt_tokens
    assert stats.busy_s > 0
    await served.load(served.base, served.greedy.version + 1)
    await converse(policy, "w", [screen(104, (224, 224))], turns)
    assert sent == [1] * 5  # what the server keeps is the pictures, not what the old weights made of them
    assert engine.stats.cached_tokens == stats.cached_tokens
    engine.close()


async def test_a_request_that_is_cancelled_is_given_up_by_the_server(served, tmp_path):
    engine = served.sampling(tmp_path, LONG)
    engine._params["logit_bias"][str(served.encoder.eos)] = -100.0
    prompt = served.encoder.first_prompt("x", served.encoder.picture(screen(1).frame))
    began = tokens_generated(served.server)
    running = [
        asyncio.create_task(engine.generate(Request(f"c{i}", prompt, [screen(1).frame]))) for i in range(4)
    ]
    while await asyncio.to_thread(tokens_generated, served.server) < began + 20:
        await asyncio.sleep(0.05)
    for task in running:
        task.cancel()
    outcomes = await asyncio.gather(*running, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 4
    async with asyncio.timeout(120):
        while await asyncio.to_thread(metric, served.server, "num_requests_running") > 0:
            await asyncio.sleep(0.2)
    assert tokens_generated(served.server) - began < 4 * 1500
    assert engine.stats.sampled_tokens == 0
    engine.close()


async def test_a_screenshot_that_a_request_does_not_list_is_no_way_in(served):
    """The server fetches nothing: no address, no file, no frame of anybody else's request."""
    headers = {"Authorization": f"Bearer {served.server.token}"}
    for url in ("http://127.0.0.1:1/x.png", "file:///etc/passwd", "data:image/png;base64,AAAA", "0" * 32):
        inner = {"model": "policy", "token_ids": [served.encoder.image_token], "sampling_params": {}}
        inner |= {"content_parts": [{"type": "image_url", "url": url, "uuid": url}]}
        asked = {"request": inner, "names": [], "sent": {}}
        answer = httpx.post(
            served.server.url + PATH, json=asked, headers=headers, trust_env=False, timeout=60
        )
        assert answer.status_code == 400 and "does not list" in answer.text


@torch.no_grad()
def logprobs(state: State, encoder: Encoder, request: Request, completion: Completion) -> list[float]:
    """Of the sampled tokens, in one forward pass, where the end token has no share."""
    model = open_model(SMALL_POLICY)
    model.load_state_dict(state, strict=False)
    ids = [*request.ids, *completion.ids]
    pictures = [encoder.picture(frame) for frame in request.frames]
    grids = [picture.grid for picture in pictures]
    positions, _ = rope_positions(ids, grids, encoder.image_token, MERGE)
    output = model(
        input_ids=torch.tensor([ids]),
        position_ids=positions[:, None],
        pixel_values=pixel_values(pictures),
        image_grid_thw=torch.tensor(grids),
    )
    logits = output.logits[0, len(request.ids) - 1 : -1].double()
    logits[:, [*encoder.unsampled, encoder.eos]] = -torch.inf
    return torch.log_softmax(logits, -1).gather(-1, torch.tensor(completion.ids)[:, None])[:, 0].tolist()


async def test_updates_under_load_lose_no_request(served, tmp_path):
    """The same screens come again and again, so that every cache of pictures is in use while it is reset."""
    engine = served.sampling(tmp_path)
    policy = EnginePolicy(served.encoder, engine)
    await asyncio.to_thread(engine.load_weights, {}, 30)
    playing = asyncio.gather(
        *(converse(policy, f"l{i}", [screen(turn % 3) for turn in range(5)]) for i in range(12))
    )
    version = 30
    while not playing.done():
        version += 1
        await served.load(moved(served.base, seed=version, by=0.001), version)
    episodes = await playing
    seen = {turn.output.policy_version for turns in episodes for turn in turns}
    assert len(seen) > 1
    assert seen <= set(range(30, version + 1))
    engine.close()
    await served.load(served.base, version + 1)


@pytest.mark.parametrize("victim", ["server", "engine"])
async def test_a_server_killed_in_the_middle_of_a_request_is_started_anew_with_the_newest_weights(
    served, victim
):
    state = moved(served.base, seed=6, by=0.05)
    version = served.greedy.version + 1
    await served.load(state, version)
    expected = await served.replies("a")
    headers = {"Authorization": f"Bearer {served.server.token}"}
    httpx.post(f"{served.server.url}/pause?mode=keep", headers=headers, trust_env=False).raise_for_status()
    waiting = [asyncio.create_task(served.replies(f"w{i}")) for i in range(3)]
    await asyncio.sleep(0.5)
    pid = served.server.pid
    assert pid is not None
    os.kill(pid if victim == "server" else engine_of(pid), signal.SIGKILL)
    for fault in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(fault, FaultError)
        assert (fault.fault.origin, fault.fault.retryable) == ("policy", True)
    assert await served.replies("a") == expected
    assert served.server.pid != pid
    with pytest.raises(ProcessLookupError):  # its workers went too
        os.killpg(pid, 0)
    assert served.greedy.version == version


def engine_of(server: int) -> int:
    """The process of vLLM's engine core, a child of the API server's."""
    listed = subprocess.run(["ps", "-o", "pid=,cmd=", "--ppid", str(server)], capture_output=True, text=True)
    return next(int(line.split()[0]) for line in listed.stdout.splitlines() if "EngineCore" in line)


async def test_no_path_but_health_answers_without_the_key(served):
    for path in (
        "/pause",
        "/collective_rpc",
        "/inference/v1/generate",
        "/v1/load_lora_adapter",
        "/reset_mm_cache",
    ):
        assert httpx.post(served.server.url + path, trust_env=False).status_code == 401
    assert httpx.get(served.server.url + "/health", trust_env=False).status_code == 200


async def test_a_server_ends_with_the_process_that_started_it(tmp_path):
    program = (
        "import sys, threading; from pathlib import Path\n"
        "from training.engine.vllm.server import *\n"
        "server = VllmServer(ServerConfig(Path(sys.argv[1]), Path(sys.argv[2])))\n"
        "threading.Thread(target=server.start, daemon=True).start()\n"
        "while not server.pid: time.sleep(0.01)\n"
        "print(server.pid, flush=True); time.sleep(600)\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program, str(SMALL_POLICY), str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    server = int(owner.stdout.readline())
    os.kill(server, 0)
    owner.kill()
    owner.wait()
    deadline = time.monotonic() + 120
    while Path(f"/proc/{server}").exists() and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    assert not Path(f"/proc/{server}").exists()


async def test_a_lora_adapter_is_replaced_in_place(tmp_path, local):
    """Version by version it samples what the merged weights would; a zero adapter is the base."""
    lora = LoraConfig(rank=8, alpha=16)
    encoder = Encoder(SMALL_POLICY)
    engine = VllmEngine(
        [VllmServer(ServerConfig(SMALL_POLICY, tmp_path / "log", max_lora_rank=lora.rank))],
        encoder,
        WeightWriter(tmp_path / "weights", SMALL_POLICY, lora),
        SHORT,
        max_context=CONTEXT,
    )
    network = open_model(SMALL_POLICY)
    trained = adapters.adapted(network, lora)
    try:
        for version, scale in ((1, 0.3), (2, 0.2), (3, 0.0)):
            generator = torch.Generator().manual_seed(version)
            for name, tensor in trained.named_parameters():
                if ".lora_" in name:
                    tensor.data = scale * torch.randn(tensor.shape, generator=generator)
            adapter = get_peft_model_state_dict(trained)
            await asyncio.to_thread(engine.load_weights, adapter, version)
            local.engine.load_weights(adapters.merged(network), version)
            turns = await converse(EnginePolicy(encoder, engine), f"{version}", [screen(i) for i in range(3)])
            assert {turn.output.policy_version for turn in turns} == {version}
            assert furthest(local, turns) < 1e-3
    finally:
        engine.close()
        local.engine.load_weights(weights(), 4)
