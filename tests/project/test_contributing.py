"""A preset and a taskset are added as CONTRIBUTING says, in a copy of the checkout: no test of it fails."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRESET = '''
"""Ours (arXiv 2601.00001): a preset with a part of every kind.

What it is:

- GRPO with a KL term, an entropy bonus, a mix of earlier successes, and without groups that are all alike.

What we do otherwise, and why:

- Nothing.
"""

from functools import partial

from training.advantages import group_advantages
from training.algorithms.algorithm import Algorithm, Clipped, EntropyTerm, Kl, Objective, PositiveMix
from training.algorithms.credit import group_relative
from training.algorithms.reward import outcome

OURS = Algorithm(
    name="ours",
    paper="2601.00001",
    reward=outcome,
    credit=partial(group_relative, estimate=partial(group_advantages, std="sample", eps=1e-6)),
    objective=Objective(
        surrogate=Clipped(level="token", low=0.1, high=0.4, bias="norm"),
        aggregation="token_mean",
        kl=Kl(form="k2", coef=0.02),
        entropy=EntropyTerm(coef=0.01),
    ),
    replay=PositiveMix(share=0.5, capacity=4, max_age=50),
    flat_groups="drop",
    min_std=0.1,
    signals=frozenset({"reference"}),
)
'''
TASKSET = '''
"""Two of MiniWoB's pages under one name: a taskset of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rewards.tasksets.miniwob import MiniWob, MiniWobTask


@dataclass(frozen=True)
class Ours:
    oracle: bool = False
    names: Sequence[str] = field(default=("click-test", "click-tab"))

    def task(self, name: str, seed: int) -> MiniWobTask:
        return MiniWob(self.oracle).task(name, seed)
'''
SUITE = '''
"""The suite of our taskset."""

from eval.suites.suite import Suite

OURS = Suite("ours", "ours", ("click-tab",), ("click-test",), episodes=5, device="browser")
'''


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    for package in ("guiagent", "devices", "rewards", "training", "eval", "tests", "docs"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "pyproject.toml", folder)
    return folder


def add(file: Path, imported: str, before: str, line: str) -> None:
    """Write the two lines that a dict of names takes: the import, and the entry before what is there."""
    text = file.read_text()
    assert text.count(before) == 1
    head, future = text.split("\n\n", 1)
    file.write_text(f"{head}\n\n{imported}\n{future.replace(before, line + before)}")


def passes(checkout: Path, *arguments: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


@pytest.mark.slow
def test_a_preset_is_a_file_and_a_line(checkout: Path) -> None:
    (checkout / "training/algorithms/ours.py").write_text(PRESET.lstrip())
    entry = "        *(ARPO, TRAJ_RPO, "
    add(
        checkout / "training/algorithms/__init__.py",
        "from training.algorithms.ours import OURS",
        entry,
        "        OURS,\n",
    )
    tests = ["test_algorithms", "test_algorithms_credit", "test_reward", "test_adjusted"]
    passes(checkout, *(f"tests/training/{name}.py" for name in tests))
    passes(checkout, "tests/training/test_learner.py", "-k", "ours")


@pytest.mark.slow
def test_a_taskset_and_its_suite_are_a_file_and_a_line_each(checkout: Path) -> None:
    (checkout / "rewards/tasksets/ours.py").write_text(TASKSET.lstrip())
    (checkout / "eval/suites/ours.py").write_text(SUITE.lstrip())
    add(
        checkout / "rewards/catalogue.py",
        "from rewards.tasksets.ours import Ours",
        '"miniwob": MiniWob,',
        '"ours": Ours, ',
    )
    add(checkout / "eval/suites/__init__.py", "from eval.suites.ours import OURS", "MINIWOB_DEMO, ", "OURS, ")
    passes(checkout, "tests/eval/test_suites.py", "tests/rewards/test_catalogue.py")
    words = ["--recipe", "arpo-demo", "--dry-run", "--set", "taskset=ours", "--set", 'tasks=["*"]']
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "guiagent.cli", "train", *words],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "2 of ours" in done.stdout, done.stdout + done.stderr
