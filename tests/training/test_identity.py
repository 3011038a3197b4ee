"""A run's folder belongs to one config: what may change between sessions, and what is another run."""

from pathlib import Path

import pytest

from guiagent import config as configuration
from guiagent.errors import UsageError
from training.config import SftConfig, TrainConfig
from training.identity import OUTSIDE, claim, require_same


def config(*overrides: str) -> TrainConfig:
    return configuration.load(TrainConfig, None, ["tasks=['click-tab', 'click-color']", *overrides])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    claim(tmp_path, config("update.learning_rate=5e-4"))
    return tmp_path


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("update.learning_rate=1e-5", "update.learning_rate was 0.0005, now 1e-05"),
        ("update.algorithm=rloo", 'update.algorithm was "arpo", now "rloo"'),
        ("policy=other", 'policy was "tiny", now "other"'),
        ("tasks=['click-tab']", 'tasks was ["click-tab", "click-color"], now ["click-tab"]'),
        ("update.objective.kl.coef=0.1", "update.objective.kl.coef was not set, now 0.1"),
        ("rollout.temperature=0.5", "rollout.temperature was 1.0, now 0.5"),
        ("seed=1", "seed was 0, now 1"),
        ("judge.preset=pae", "judge was not set, now {"),
    ],
)
def test_another_config_is_refused_with_its_key_and_both_values(run: Path, override: str, said: str) -> None:
    before = (run / "config.toml").read_bytes()
    with pytest.raises(UsageError) as refused:
        claim(run, config("update.learning_rate=5e-4", override))
    assert said in str(refused.value)
    assert f"--fork-from {run}" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert (run / "config.toml").read_bytes() == before


@pytest.mark.parametrize(
    "override",
    [
        *("steps=7", "minutes=2", "env_steps=9", "checkpoint_minutes=5"),
        *("evaluation.episodes=3", "rollout.devices=3", "ray.workers=5", "update.batch_tokens=1000"),
        *("device.farm=http://127.0.0.1:1", "update.compile=true"),
    ],
)
def test_budgets_and_the_machine_may_change_and_are_written_down(run: Path, override: str) -> None:
    changed = config("update.learning_rate=5e-4", override)
    claim(run, changed)
    assert configuration.load(TrainConfig, run / "config.toml") == changed


def test_a_judge_may_move_and_not_become_another(tmp_path: Path) -> None:
    judge = ["judge.url=http://127.0.0.1:1", "judge.model=m"]
    claim(tmp_path, config(*judge))
    claim(tmp_path, config("judge.url=http://127.0.0.1:2", "judge.model=m", "judge.concurrency=2"))
    with pytest.raises(UsageError, match=r'judge\.model was "m", now "n"'):
        claim(tmp_path, config("judge.url=http://127.0.0.1:2", "judge.model=n"))


def test_a_config_of_an_earlier_version_still_goes_on(tmp_path: Path) -> None:
    """It lacks younger keys, and has some of the machine that are gone since."""
    (tmp_path / "config.toml").write_text(
        'taskset = "miniwob"\ntasks = ["click-tab", "click-color"]\nsteps = 3\n'
        '[update]\nalgorithm = "arpo"\n[ray]\ngpus = 0.0\nnobody = 1\n'
    )
    require_same(tmp_path, config("steps=9"))
    with pytest.raises(UsageError, match="seed was 0, now 2"):
        require_same(tmp_path, config("seed=2"))


def test_a_fine_tuning_run_has_an_identity_too(tmp_path: Path) -> None:
    tuned = SftConfig(store=tmp_path / "store")
    claim(tmp_path, tuned)
    claim(tmp_path, tuned.model_copy(update={"steps": 900, "validate_every": 3}))
    with pytest.raises(UsageError, match="batch was 32, now 4"):
        claim(tmp_path, tuned.model_copy(update={"batch": 4}))


def test_every_key_outside_of_the_identity_exists() -> None:
    fields = {"": TrainConfig, "sft": SftConfig}
    known = {key for model in fields.values() for key in configuration.keys(model)}
    assert known >= OUTSIDE


def test_a_folder_without_a_run_is_anybodys(tmp_path: Path) -> None:
    require_same(tmp_path / "nothing", config())


def test_a_folder_that_was_moved_is_the_same_run_and_another_policy_is_not(tmp_path: Path) -> None:
    began, run = tmp_path / "began", tmp_path / "run"
    began.mkdir()
    claim(began, config(f"policy={began / 'forked-policy'}"))
    began.rename(run)
    require_same(run, config(f"policy={run / 'forked-policy'}"))
    for other in (run / "checkpoints", tmp_path / "forked-policy", Path("forked-policy")):
        with pytest.raises(UsageError, match="policy was"):
            require_same(run, config(f"policy={other}"))


def test_a_stage_has_what_is_its_recipes_wherever_that_folder_lies(tmp_path: Path) -> None:
    def of(recipe: Path) -> SftConfig:
        return SftConfig(store=recipe / "demonstrations", policy=str(recipe / "base" / "policy"))

    began, recipe = tmp_path / "began", tmp_path / "recipe"
    (began / "sft").mkdir(parents=True)
    claim(began / "sft", of(began))
    began.rename(recipe)
    with pytest.raises(UsageError, match="store was"):  # a run beside others has nothing of theirs
        require_same(recipe / "sft", of(recipe))
    claim(recipe, config())
    require_same(recipe / "sft", of(recipe))
    with pytest.raises(UsageError, match="store was"):
        require_same(recipe / "sft", of(recipe).model_copy(update={"store": tmp_path / "demonstrations"}))
