"""Every shipped recipe, loaded as it stands but for the weights: architecture, tasks, dialect, tokens."""

import json
import re
from pathlib import Path

import pytest
from transformers import Qwen2_5_VLConfig, Qwen3VLConfig
from typer.testing import CliRunner

from guiagent import config as configuration
from guiagent.cli import app
from guiagent.cli.train.recipes import recipe_path
from guiagent.errors import UsageError
from rewards.proposers.types import Outcome, Proposal
from rewards.proposers.validation import ProposalLog
from tests.support.architectures import QWEN3_8B, QWEN25_7B
from training.config import TrainConfig
from training.dry_run import check
from training.dry_run.check import TURN_SECONDS, Machine
from training.dry_run.finding import Finding
from training.dry_run.gpus import numbers
from training.tiny import model

TASK_FILES = Path(__file__).parents[1] / "support" / "osworld_tasks"


def without_weights(folder: Path, kind: type, architecture: dict[str, dict[str, object]], patch: int) -> Path:
    """A checkpoint folder as it is downloaded, less the weights."""
    folder.mkdir()
    tokenizer = model.make_tokenizer(["Open the settings and turn Wi-Fi off."])
    tokenizer.save_pretrained(folder)
    names = ("image_token", "video_token", "vision_start_token", "vision_end_token")
    special = {f"{name}_id": tokenizer.convert_tokens_to_ids(getattr(tokenizer, name)) for name in names}
    kind(**architecture, **special).save_pretrained(folder)
    pictures = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "size": {"shortest_edge": 4 * (2 * patch) ** 2, "longest_edge": 16384 * (2 * patch) ** 2},
        "patch_size": patch,
        "merge_size": 2,
        "temporal_patch_size": 2,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(pictures))
    return folder


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("policies")
    return {
        "qwen2.5": without_weights(folder / "a", Qwen2_5_VLConfig, QWEN25_7B, 14),
        "qwen3": without_weights(folder / "b", Qwen3VLConfig, QWEN3_8B, 16),
    }


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("book") / "book.jsonl"
    with ProposalLog(path) as written:
        written.add(Proposal("one", "Mute the sound.", "desktop", 0, "zerogui"), Outcome("one"))
    return path


LARGE = {  # recipe: family, billions of parameters
    "osworld-arpo": ("qwen2.5", 8.29),
    "osworld-arpo-qwen3": ("qwen3", 8.77),
    "osworld-dart": ("qwen2.5", 8.29),
    "osworld-dart-qwen3": ("qwen3", 8.77),
    "androidworld-trpo": ("qwen2.5", 8.29),
    "zerogui-generated": ("qwen2.5", 8.29),
    "zerogui-test-time": ("qwen2.5", 8.29),
    "pae-web": ("qwen2.5", 8.29),
}


def load(recipe: str, *overrides: str) -> TrainConfig:
    return configuration.load(TrainConfig, recipe_path(recipe), list(overrides))


async def dry_run(config: TrainConfig, machine: Machine | None = None) -> list[Finding]:
    """The lines of a dry run, by default on a machine without GPUs."""
    return (await check.dry_run(config, machine or Machine())).findings


def found(findings: list[Finding], what: str) -> str:
    (finding,) = (one for one in findings if one.what == what)
    assert not finding.missing, finding.missing
    return finding.found


@pytest.mark.parametrize("recipe", LARGE)
async def test_a_large_recipe(recipe: str, policies: dict[str, Path], book: Path) -> None:
    family, billions = LARGE[recipe]
    overrides = [f"policy={policies[family]}"]
    config = load(recipe)
    if config.taskset.startswith("osworld:"):
        overrides.append(f"taskset=osworld:{TASK_FILES}")
    if config.taskset.startswith("book:"):
        overrides.append(f"taskset=book:{book}")
    config = load(recipe, *overrides)
    findings, gpus = await check.dry_run(config, Machine())
    assert found(findings, "algorithm").startswith(config.update.algorithm)
    parameters = re.search(r"([\d,.]+) M parameters", found(findings, "policy"))
    assert parameters and float(parameters[1].replace(",", "")) == pytest.approx(1000 * billions, rel=0.01)
    assert found(findings, "tasks") and found(findings, "rewards")
    tokens = [
        int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?= )", found(findings, "tokens"))
    ]
    assert config.rollout.vllm is not None
    assert 0 < tokens[0] < tokens[1] <= config.rollout.vllm.max_model_len
    assert not [line.missing for line in findings if line.missing and line.what != "engine"]
    used = sorted(gpu for row in gpus for gpu in row.gpus)
    assert used == list(range({"osworld-arpo": 16, "osworld-arpo-qwen3": 16, "pae-web": 1}.get(recipe, 8)))
    assert all(0.5 * 80 * 2**30 < row.total <= 80 * 2**30 for row in gpus)
    assert found(findings, "placement") and found(findings, "pass") and found(findings, "cache")
    assert ("--launch ray" in found(findings, "placement")) == recipe.startswith("osworld-arpo")


@pytest.mark.parametrize("recipe", LARGE)
def test_its_head_says_what_it_needs_and_costs(recipe: str) -> None:
    """The turns and device-hours in a recipe's head are those of its numbers."""
    text = recipe_path(recipe).read_text()
    config = load(recipe)
    assert "# Needs" in text
    if "those of `" in text:  # the head of another recipe, whose numbers are the same
        base = load(recipe.removesuffix("-qwen3"))
        assert (base.steps, base.update, base.device) == (config.steps, config.update, config.device)
        assert base.rollout == config.rollout
        return
    assert config.rollout.max_steps is not None
    turns = config.steps * config.update.groups * config.rollout.group_size * config.rollout.max_steps
    said = " ".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
    assert f"{turns:,} turns" in said
    seconds = float(re.search(r"at (\d+) s a turn", said)[1])  # type: ignore[index]
    assert seconds == TURN_SECONDS
    assert f"{turns * seconds / 3600:.0f} device-hours" in said


@pytest.mark.parametrize(
    ("recipe", "size"), [("arpo-demo", "1.5"), ("zero", "1.5"), ("demo", "1.7"), ("everywhere", "1.7")]
)
async def test_a_small_recipe(recipe: str, size: str) -> None:
    findings = await dry_run(load(recipe))
    assert not [finding for finding in findings if finding.missing]
    assert f"{size} M parameters" in found(findings, "policy")


async def test_what_is_missing_is_told_with_the_way_out(policies: dict[str, Path], tmp_path: Path) -> None:
    config = load(
        "osworld-arpo",
        f"taskset=osworld:{tmp_path}",
        f"policy={tmp_path}",
        "update.algorithm=magic",
    )
    missing = {one.what: one.missing for one in await dry_run(config) if one.missing}
    assert "holds no task files" in missing["tasks"]
    assert "config.json is missing" in missing["policy"]
    assert "known: arpo" in missing["algorithm"]


EVIDENCE_JUDGE = ("judge.preset=smartsnap", "judge.url=http://127.0.0.1:1", "judge.model=m")


@pytest.mark.parametrize(
    ("overrides", "part", "way"),
    [
        (EVIDENCE_JUDGE, "rewards", 'set dialect = "ui-tars+evidence"'),
        ((*EVIDENCE_JUDGE, "dialect=qwen3-mobile"), "rewards", 'set dialect = "qwen3-mobile+evidence"'),
        (("taskset=proposed", 'tasks=["*"]'), "rewards", "add [judge] to the recipe"),
        (("update.algorithm=zerogui", "update.seeds=successes"), "seeds", "leave out update.seeds"),
    ],
)
async def test_what_would_end_the_run_at_once_is_told_in_a_line(
    overrides: tuple[str, ...], part: str, way: str
) -> None:
    (finding,) = (one for one in await dry_run(load("arpo-demo", *overrides)) if one.what == part)
    assert way in finding.missing and "\n" not in finding.missing


async def test_a_judge_of_evidence_is_found_where_the_dialect_has_words_for_it() -> None:
    config = load("arpo-demo", *EVIDENCE_JUDGE, "dialect=ui-tars+evidence")
    assert found(await dry_run(config), "rewards").endswith("preset smartsnap")


async def test_where_steps_get_their_labels_is_told() -> None:
    judge = ["step_judge.url=http://127.0.0.1:1", "step_judge.model=m"]
    by_preset = {
        ("seagent",): "by the outcome",
        ("seagent", *judge): "m at http://127.0.0.1:1 (not asked",
        ("arpo", *judge): "leave out [step_judge]",
    }
    for (algorithm, *settings), said in by_preset.items():
        config = load("arpo-demo", f"update.algorithm={algorithm}", *settings)
        (labels,) = (one for one in await dry_run(config) if one.what == "labels")
        assert said in labels.found + labels.missing
        assert bool(labels.missing) == (algorithm == "arpo")


async def test_an_episode_that_does_not_fit_is_told(policies: dict[str, Path]) -> None:
    config = load("osworld-arpo", f"policy={policies['qwen2.5']}", f"taskset=osworld:{TASK_FILES}")
    small = config.rollout.model_copy(
        update={"vllm": config.rollout.vllm.model_copy(update={"max_model_len": 8192})}  # type: ignore[union-attr]
    )
    findings = await dry_run(config.model_copy(update={"rollout": small}))
    (tokens,) = (one for one in findings if one.what == "tokens")
    assert "over rollout.vllm.max_model_len, 8,192" in tokens.missing


@pytest.mark.parametrize(
    ("overrides", "machine", "line"),
    [
        (["update.gradient_checkpointing=false"], Machine(), "set update.gradient_checkpointing"),
        (["update.precision=float32"], Machine(), 'set update.precision = "bfloat16"'),
        (["placement.trainers=[0]"], Machine(), "place more trainers"),
        (["placement.engine_memory=0.2"], Machine(), "leaves 0.6 GiB beside the weights"),
        (
            ["placement.engines=[[8,9,10,11,12,13,14]]"],
            Machine(),
            "7 GPUs, and the model's 4 key heads",
        ),
        (["placement.engines=[[7,8]]"], Machine(), "of more than one host"),
        (["update.batch_tokens=32768"], Machine(), "over update.batch_tokens, 32,768"),
        ([], Machine(gib=40.0), "and has 40 GiB"),
        ([], Machine(launch="torchrun", gpus=8), "and GPU 8 is of another one"),
    ],
)
async def test_what_does_not_fit_is_told_with_the_way_out(
    policies: dict[str, Path], overrides: list[str], machine: Machine, line: str
) -> None:
    common = [f"policy={policies['qwen2.5']}", f"taskset=osworld:{TASK_FILES}"]
    findings = await dry_run(load("osworld-arpo", *common, *overrides), machine)
    assert any(line in one.missing and "\n" not in one.missing for one in findings), findings


async def test_a_recipe_without_placement_is_placed_on_the_gpus_that_are_there() -> None:
    config = load("arpo-demo")
    findings, gpus = await check.dry_run(config, Machine(gpus=2))
    assert "trainers on GPU 0 (nothing is said in [placement])" in found(findings, "placement")
    assert [(row.gpus, row.parts) for row in gpus] == [((0,), ("trainer", "engine"))]
    findings, gpus = await check.dry_run(config, Machine(launch="torchrun", processes=2, gpus=2))
    assert [(row.gpus, row.parts) for row in gpus] == [((0,), ("trainer", "engine")), ((1,), ("trainer",))]
    findings, gpus = await check.dry_run(config, Machine())
    assert "in one process without a GPU" in found(findings, "memory") and not gpus


def test_the_command_prints_a_row_for_every_gpu(policies: dict[str, Path]) -> None:
    arguments = ["train", "--recipe", "osworld-dart", "--dry-run"]
    for override in (f"policy={policies['qwen2.5']}", f"taskset=osworld:{TASK_FILES}"):
        arguments += ["--set", override]
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "160"})
    rows = [line.split() for line in done.stdout.splitlines()]
    (trainers,) = (row for row in rows if row[1:2] == ["trainer"])
    (engines,) = (row for row in rows if row[1:2] == ["vLLM"])
    assert (trainers[0], engines[0]) == ("0-5", "6-7")
    *parts, total = [0.0 if word == "-" else float(word) for word in trainers[2:]]
    assert sum(parts) + 2 == pytest.approx(total, abs=0.5)  # 2 are left for CUDA itself
    assert "at 5 s a turn" in done.stdout and "533 device-hours" in done.stdout


def test_gpus_are_written_as_ranges() -> None:
    assert numbers((0, 1, 2, 3, 8)) == "0-3, 8" and numbers((5,)) == "5"


def test_an_unknown_recipe_is_refused() -> None:
    with pytest.raises(UsageError, match="osworld-arpo"):
        recipe_path("nothing")
