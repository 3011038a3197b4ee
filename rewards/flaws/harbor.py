"""Flaws of Harbor's task folders, by where the test runs, what it calls and what lies within reach. Pure.

Folders are read within the bounds of `rewards.tasksets.harbor.folder`; no program of theirs is run.
"""

import re
from collections.abc import Callable, Mapping

from rewards.flaws.flaw import Flaw
from rewards.tasksets.harbor.folder import OWN_VERIFIER, TaskFolder

_TEST, _COMPOSE = "tests/test.sh", "environment/docker-compose.yaml"
_NETWORK = re.compile(
    r"\b(curl|wget|apt-get|apt|pip3?|uvx?|npm|npx|git\s+clone|conda|cargo|go\s+install)\b(?!\s*--version)"
)
_MOUNTS = re.compile(r"\.\./(tests|solution)\b")
_PYTEST = re.compile(r"\bpytest\b")


def _beside_agent(folder: TaskFolder) -> bool:
    return OWN_VERIFIER not in folder.lacks


def _from_network(folder: TaskFolder) -> bool:
    return any(_NETWORK.search(line) for line in _lines(folder, _TEST))


def _takes_hooks(folder: TaskFolder) -> bool:
    """Pytest without both options reads settings and `conftest.py` from all folders above its tests."""
    called = [line for line in _lines(folder, _TEST) if _PYTEST.search(line)]
    guarded = all("--noconftest" in line and re.search(r"\s-c[\s=]", line) for line in called)
    return _beside_agent(folder) and bool(called) and not guarded


def _answer_within_reach(folder: TaskFolder) -> bool:
    """A file of the solution or the tests is also among what the agent's container is made of."""
    kept = {_content(folder, one) for one in folder.files if one.startswith(("solution/", "tests/"))} - {b""}
    given = (one for one in folder.files if one.startswith("environment/"))
    return any(_content(folder, one) in kept for one in given)


def _mounted(folder: TaskFolder) -> bool:
    return any(_MOUNTS.search(line) for line in _lines(folder, _COMPOSE))


def _no_solution(folder: TaskFolder) -> bool:
    return not folder.solvable


FLAWS: Mapping[Flaw, Callable[[TaskFolder], bool]] = {
    Flaw(
        "test-beside-agent",
        "the test runs where the agent was: what the agent left running can write the reward",
        "BenchJack, arXiv 2605.12673 (no isolation)",
    ): _beside_agent,
    Flaw(
        "test-from-network",
        "the test downloads what it runs: it depends on the live web, and on the agent's own curl",
        "BenchJack on Terminal-Bench (a trojan for curl)",
    ): _from_network,
    Flaw(
        "test-takes-hooks",
        "pytest reads settings and conftest.py above its tests, where the agent can put them",
        "BenchJack on SWE-bench (a hook in conftest.py)",
    ): _takes_hooks,
    Flaw(
        "answer-within-reach",
        "a file of the solution or of the tests is also among the agent's files",
        "BenchJack (answers shipped)",
    ): _answer_within_reach,
    Flaw(
        "tests-mounted",
        "the agent's container mounts the folder of the tests or of the solution",
        "BenchJack (answers shipped)",
    ): _mounted,
    Flaw(
        "no-solution",
        "there is no solution that shows that the test can be met",
        "ABC checklist, arXiv 2507.02825 (solvability)",
    ): _no_solution,
}


def _content(folder: TaskFolder, name: str) -> bytes:
    return folder.data(name).strip()


def _lines(folder: TaskFolder, name: str) -> list[str]:
    """The lines of a file that are not comments, continued ones joined; [] if there is no such file."""
    if name not in folder.files:
        return []
    text = folder.data(name).decode("utf-8", "replace").replace("\\\n", " ")
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]
