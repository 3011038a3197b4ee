"""The small policy is an ordinary checkpoint, and its demonstrations are what the plan says."""

import asyncio
import io
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText, AutoProcessor

import training.tiny
from guiagent.actions import ACTIONS, Click
from guiagent.client import FarmClient
from guiagent.client.local_pool import private_pool
from guiagent.dialects.ui_tars import UiTars
from guiagent.episode import run_episode
from guiagent.errors import Fault, FaultError
from guiagent.seeds import DEMONSTRATIONS
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Observation, ObserveSpec, PolicyOutput, Step, Trajectory
from rewards.tasksets.miniwob import GROUNDING_TASKS, HEIGHT, TRAIN_TASKS, UNSEEN_TASKS, WIDTH, MiniWob
from training.config import PLATFORMS_POLICY, WarmStartConfig, checkpoint_folder
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder
from training.inputs.pictures import pixel_values
from training.model.pretrained import on_accelerator, open_model
from training.tiny import demos, model, supervised, warm_start
from training.tiny.model import Shape

SPEC = ObserveSpec(frame="png")
DIALECT = UiTars(32)


def picture(seed: int, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Image.Image:
    return Image.frombytes("RGB", size, random.Random(seed).randbytes(3 * size[0] * size[1]))


def png(image: Image.Image) -> bytes:
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


@pytest.fixture(params=["fresh", "tiny", "tiny-platforms", "tiny-careless"])
def folder(request: pytest.FixtureRequest, checkpoint: Path) -> Path:
    return checkpoint if request.param == "fresh" else checkpoint_folder(request.param)


def test_the_checkpoint_is_small(folder):
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) <= 10 * 2**20


def test_what_is_shipped_is_small_all_together():
    weights = Path(training.tiny.__file__).parent.rglob("*.safetensors")
    assert sum(file.stat().st_size for file in weights) <= 15 * 10**6


def test_half_precision_is_computed_in_float32_where_there_is_no_gpu():
    opened = open_model(PLATFORMS_POLICY)
    assert opened.dtype == torch.float16
    if not torch.cuda.is_available():
        assert on_accelerator(opened).dtype == torch.float32


def test_the_policy_of_several_platforms_has_their_words_and_the_numbers_of_their_screens():
    encoder = Encoder(PLATFORMS_POLICY)
    for word in ("319", "Orders", " Submit"):
        assert len(encoder.plain(word)) == 1


def test_plain_transformers_loads_it_and_agrees_with_the_encoder(folder):
    """Two turns through the library's own chat template and processor: the same ids and pixels as ours."""
    processor = AutoProcessor.from_pretrained(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder)
    encoder = Encoder(folder)
    images = [picture(1), picture(2, (97, 130))]
    reply = DIALECT.render([Click(x=80, y=112)], (WIDTH, HEIGHT))
    conversation = [
        {
            "role": "user",
            "content": [{"type": "text", "text": DIALECT.prompt("Click it.")}, {"type": "image"}],
        },
        {"role": "assistant", "content": [{"type": "text", "text": reply}]},
        {"role": "user", "content": [{"type": "image"}]},
    ]
    text = processor.apply_chat_template(conversation, add_generation_prompt=True)
    theirs = processor(images=images, text=text, return_tensors="pt")

    ours = [encoder.picture(png(image)) for image in images]
    ids = encoder.first_prompt("Click it.", ours[0]) + encoder.completion(reply)
    ids += encoder.next_prompt(ours[1], ended=True)
    assert theirs["input_ids"].tolist() == [ids]
    assert torch.equal(theirs["pixel_values"], pixel_values(ours))
    assert theirs["image_grid_thw"].tolist() == [list(p.grid) for p in ours]

    generated = model.generate(**theirs, max_new_tokens=3, do_sample=False, suppress_tokens=encoder.unsampled)
    assert generated.shape[1] <= len(ids) + 3
    assert sum(parameter.numel() for parameter in model.parameters()) < 2_500_000


def test_a_plan_keeps_its_shares_and_is_always_the_same():
    plan = list(demos.plan(4000, 7, TRAIN_TASKS, GROUNDING_TASKS))
    assert plan == list(demos.plan(4000, 7, TRAIN_TASKS, GROUNDING_TASKS))
    assert plan[:100] == list(demos.plan(100, 7, TRAIN_TASKS, GROUNDING_TASKS))
    assert plan != list(demos.plan(4000, 8, TRAIN_TASKS, GROUNDING_TASKS))
    grounding = Counter(demo.task for demo in plan if demo.grounding)
    tasks = Counter(demo.task for demo in plan if not demo.grounding)
    assert 0.62 < grounding.total() / len(plan) < 0.68
    assert set(grounding) == {*TRAIN_TASKS, *GROUNDING_TASKS} and set(tasks) == {*TRAIN_TASKS}
    assert not {*grounding, *tasks} & {*UNSEEN_TASKS}
    for counts in (grounding, tasks):
        weight = {page: 1 if page in demos.FIXED_LAYOUTS else 3 for page in counts}
        expected = {page: counts.total() * weight[page] / sum(weight.values()) for page in counts}
        assert all(0.6 < counts[page] / expected[page] < 1.4 for page in counts)
    assert all(demo.seed in DEMONSTRATIONS for demo in plan)


def seen(goal: list[tuple[int, int]], candidates: list[tuple[int, int]]) -> Observation:
    clicks = {"oracle": goal, "candidates": candidates}
    probes = {name: [{"type": "click", "x": x, "y": y} for x, y in places] for name, places in clicks.items()}
    return Observation(WIDTH, HEIGHT, probes=probes)


async def clicks(
    demonstrator: demos.Demonstrator, shown: Observation, count: int
) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for _ in range(count):
        step = await demonstrator.act("e", "x", [], shown)
        (action,) = ACTIONS.validate_python(step.actions)
        assert DIALECT.parse(step.text, (WIDTH, HEIGHT)) == [action]
        found[action.x, action.y] += 1
    return found


async def test_the_demonstrator_is_right_as_often_as_told():
    shown = seen([(10, 20)], [(50, 60), (91, 100)])
    found = await clicks(demos.Demonstrator(DIALECT, seed=1), shown, 2000)
    assert found.keys() == {(10, 22), (50, 62), (90, 102)}  # the middles of 4-pixel cells
    assert found[10, 22] / 2000 == pytest.approx(demos.ACCURACY, abs=0.04)
    assert found[50, 62] / 2000 == pytest.approx((1 - demos.ACCURACY) / 2, abs=0.04)
    assert await clicks(demos.Demonstrator(DIALECT, seed=2, accuracy=1), shown, 20) == {(10, 22): 20}


async def test_the_demonstrator_has_an_answer_to_any_page():
    assert await clicks(demos.Demonstrator(DIALECT, seed=1), seen([], [(4, 4)]), 5) == {(6, 6): 5}
    assert await clicks(demos.Demonstrator(DIALECT, seed=1), seen([], []), 5) == {(2, 2): 5}


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("page", [*TRAIN_TASKS, *GROUNDING_TASKS])
async def test_grounding_points_at_the_element_that_it_names(browser_device, page):
    for seed in range(3):
        task = demos.make_task(demos.Demo(page, seed, grounding=True), MiniWob(oracle=True))
        instruction, shown = await task.setup(browser_device, SPEC)
        _, plain = await MiniWob(oracle=True).task(page, seed).setup(browser_device, SPEC)
        named = [
            candidate
            for label, candidate in zip(plain.probes["labels"], plain.probes["candidates"], strict=True)
            if instruction == f'Point at "{label}".'
        ]
        (target,) = shown.probes["oracle"]
        assert target in named

        demonstrator = demos.Demonstrator(DIALECT, seed)
        trajectory = await run_episode(
            task, browser_device, demonstrator, keep_frame=lambda data: "", spec=SPEC
        )
        (step,) = trajectory.steps
        (click,) = step.policy.actions
        assert abs(click["x"] - target["x"]) <= 2 and abs(click["y"] - target["y"]) <= 2
        assert not trajectory.valid and trajectory.fault is None
        assert trajectory.task == f"point-at:{page}"


@pytest.mark.browser
async def test_collecting_goes_on_where_it_was(tmp_path):
    config = WarmStartConfig(demonstrations=8, devices=2, steps=1)
    with private_pool(f"browser=2@{WIDTH}x{HEIGHT}") as pool, TrajectoryStore(tmp_path) as store:
        async with FarmClient(pool.url, pool.token) as farm:
            progress: list[warm_start.Progress] = []
            await warm_start.collect(farm, store, config, progress.append)
            done = [p.done for p in progress]  # two may be committed before either is told of
            assert done == sorted(done) and done[-1] == len(done) == 8 and progress[-1].total == 8
            first = list(store)
            more = config.model_copy(update={"demonstrations": 12})
            await warm_start.collect(farm, store, more, progress.append)
    with TrajectoryStore(tmp_path, readonly=True) as store:
        everything = list(store)
    assert everything[:8] == first and len({t.id for t in everything}) == len(everything) == 12
    plan = list(demos.plan(12, config.seed, TRAIN_TASKS, GROUNDING_TASKS))
    for trajectory in everything:
        demo = plan[int(trajectory.id.removeprefix("demo-"))]
        assert (trajectory.task.removeprefix("point-at:"), trajectory.seed) == (demo.task, demo.seed)
        assert trajectory.steps and trajectory.fault is None


async def test_collecting_ends_where_nothing_can_be_collected(tmp_path):
    class NoFarm(FarmClient):
        def lease(self, *arguments: object, **options: object):
            raise FaultError(Fault("farm", "no_device", "no device came free within 30 s"))

    with TrajectoryStore(tmp_path) as store, pytest.raises(FaultError, match="no device came free"):
        await warm_start.collect(
            NoFarm("http://127.0.0.1:1", ""), store, WarmStartConfig(demonstrations=2), lambda _: None
        )


SCREEN = png(picture(3, (96, 64)))
REPLIES = {"Click left.": Click(x=10, y=50), "Click right.": Click(x=90, y=20)}


def demonstrated(run: Path) -> None:
    """A screen and a click for each of two instructions."""
    with TrajectoryStore(run / "demonstrations") as store:
        frame = store.put_frame(SCREEN)
        store.commit(
            [
                Trajectory(
                    f"demo-{i}",
                    "task",
                    i,
                    instruction,
                    [Step(frame, 96, 64, PolicyOutput(DIALECT.render([click], (96, 64))))] * (1 + i),
                    "task_done",
                )
                for i, (instruction, click) in enumerate(REPLIES.items())
            ]
        )


def test_fitting_teaches_the_demonstrated_replies(tmp_path):
    """Enough steps to tell two instructions apart."""
    demonstrated(tmp_path)
    config = WarmStartConfig(demonstrations=2, steps=60, batch=4, learning_rate=3e-3, processes=1)
    progress: list[warm_start.Progress] = []
    folder = warm_start.fit(tmp_path, config, progress.append)
    assert (progress[-1].done, progress[-1].total) == (60, 60)

    async def ask(instruction: str) -> PolicyOutput:
        return await policy.act(instruction, instruction, [], Observation(96, 64, frame=SCREEN))

    policy = LocalPolicy(Encoder(folder), Sampling(temperature=0, max_new_tokens=8))
    try:
        for instruction, click in REPLIES.items():
            assert ACTIONS.validate_python(asyncio.run(ask(instruction)).actions) == [click]
    finally:
        policy.close()


class Cut(Exception):
    """In the place of a kill."""


def test_a_fit_that_was_cut_goes_on_bit_by_bit(tmp_path, monkeypatch):
    """Cut before there is a checkpoint, and while one is written beside the fit."""
    monkeypatch.setattr(supervised, "_REPORT_S", -1.0)
    config = WarmStartConfig(demonstrations=2, steps=5, batch=2, processes=1)
    demonstrated(tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    whole = load_file(warm_start.fit(tmp_path / "whole", config, lambda _: None) / "model.safetensors")
    told: list[int] = []

    def stop(progress: warm_start.Progress) -> None:
        told.append(progress.done)
        if progress.done == 3:
            torch.distributed.destroy_process_group()
            raise Cut

    for minutes in (1.0, 0.0):
        monkeypatch.setattr(supervised, "_CHECKPOINT_MINUTES", minutes)
        with pytest.raises(Cut):
            warm_start.fit(tmp_path / "cut", config, stop)
        assert not (tmp_path / "cut" / "policy").exists()
    folder = warm_start.fit(tmp_path / "cut", config, lambda progress: told.append(progress.done))
    assert told[:6] == [1, 2, 3, 1, 2, 3]
    assert told[6:] in ([4, 5], [3, 4, 5])  # the third was written or was not when the fit was cut
    cut = load_file(folder / "model.safetensors")
    assert whole.keys() == cut.keys() and all(torch.equal(whole[name], cut[name]) for name in whole)
    assert warm_start.fit(tmp_path / "cut", config, stop) == folder  # finished: nothing is left to do


@pytest.mark.parametrize("shape", [Shape(8, 2, 1), Shape(16, 1, 3, hidden=64)])
def test_a_model_of_another_shape_is_an_ordinary_checkpoint(shape: Shape, tmp_path: Path) -> None:
    tokenizer = model.make_tokenizer(['Open "Orders".'])
    model.save(model.make_model(tokenizer, shape), model.make_processor(tokenizer, shape), tmp_path)
    loaded, shown = (
        AutoModelForImageTextToText.from_pretrained(tmp_path),
        Encoder(tmp_path).picture(png(picture(0))),
    )
    assert len(loaded.model.visual.blocks) == shape.vision_layers
    assert shown.tokens == (WIDTH // (shape.patch * shape.merge)) * (HEIGHT // (shape.patch * shape.merge))
    seen = loaded.get_image_features(pixel_values([shown]), torch.tensor([shown.grid]), return_dict=True)
    assert torch.cat(list(seen.pooler_output)).shape == (shown.tokens, shape.hidden)


def test_numbers_are_tokens_as_far_as_the_screens_go_and_any_text_can_be_encoded() -> None:
    assert model.largest_number([160, 210]) == model.largest_number([160, 224]) == 223
    assert model.largest_number([240, 320]) == 319
    shipped, phone = model.make_tokenizer(["x"]), model.make_tokenizer(["x"], largest=319)
    assert [len(one.encode("223")) for one in (shipped, phone)] == [1, 1]
    assert [len(one.encode("319")) for one in (shipped, phone)] == [2, 1]
    words = "Español (España) − 12×3, 日本"
    assert phone.decode(phone.encode(words)) == words
