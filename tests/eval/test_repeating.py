"""Stored episodes again on a device: what comes out, where it stops, what is aimed anew, and branches."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from devices.config import PoolConfig, SimConfig
from devices.drivers import DRIVERS
from eval.replay.healing import Lost, healed
from guiagent.actions import Action, Click, Drag, KeyChord, Type
from guiagent.cli import app
from guiagent.client.recording.secrets import HIDDEN
from guiagent.client.sync import connect
from guiagent.errors import GuiAgentError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Node, Trajectory
from guiagent.wire import Endpoint
from tests.support.pool_thread import pool_thread


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    folder = tmp_path_factory.mktemp("pool")
    with pool_thread(PoolConfig(state_dir=folder, port=0, devices=[SimConfig(count=2)]), DRIVERS) as endpoint:
        yield endpoint


class Command:
    """`guiagent` with this pool, and with a state folder of its own."""

    def __init__(self, pool: Endpoint, home: Path) -> None:
        self._environment = {"GUIAGENT_POOL": pool.url, "GUIAGENT_TOKEN": pool.token}
        self._environment["GUIAGENT_HOME"] = str(home)

    def __call__(self, *words: str, code: int = 0, **variables: str) -> str:
        """What it says. Its exit code has to be `code`."""
        done = CliRunner().invoke(app, words, env=self._environment | variables)
        if isinstance(done.exception, GuiAgentError):
            assert done.exception.exit_code == code, done.exception
            return str(done.exception)
        assert done.exit_code == code, (done.output, done.exception)
        return done.output


@pytest.fixture
def guiagent(pool: Endpoint, tmp_path: Path) -> Command:
    return Command(pool, tmp_path / "home")


@pytest.fixture(scope="module")
def record(pool: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lease in which somebody pressed the key A and typed: its keys lie as seed 3 has them."""
    folder = tmp_path_factory.mktemp("record")
    with connect(pool.url, pool.token) as farm, farm.lease("sim", record=folder) as device:
        device.reset(seed=3)
        device.click_on("A", role="button")
        device.type("bc")
        device.key("Enter")
        device.click_on("D", role="button")
    return folder


def stored(folder: Path) -> Trajectory:
    with TrajectoryStore(folder / "trajectories", readonly=True) as store:
        [one] = store
        return one


def with_seed(record: Path, seed: int, folder: Path) -> Path:
    """The same episode, said to have begun with another seed: the keys lie elsewhere."""
    with (
        TrajectoryStore(record / "trajectories", readonly=True) as source,
        TrajectoryStore(folder / "trajectories") as store,
    ):
        [one] = source
        for hash in {*(step.frame for step in one.steps), one.final_frame}:
            store.put_frame(source.frame(hash))
        one.seed = seed
        store.commit([one])
    return folder


def verdicts(said: str) -> list[str]:
    return re.findall(r"^(?:step \d+|end) +(\w+)", said, re.MULTILINE)


def test_an_episode_comes_out_again(guiagent: Command, record: Path) -> None:
    id = stored(record).id
    said = guiagent("replay", str(record), "--episode", id[:8], "--on", "sim")
    assert verdicts(said) == ["same"] * 5
    assert "press Enter" in said
    [folder] = (record / "replayed").iterdir()
    again = stored(folder)
    assert (again.parent, again.group, len(again.steps)) == (id, id, 4)
    assert [step.frame for step in again.steps] == [step.frame for step in stored(record).steps]
    page = guiagent("replay", str(record))
    assert "2 episodes, 8 steps" in page


def test_it_stops_at_the_first_difference(guiagent: Command, record: Path, tmp_path: Path) -> None:
    other = with_seed(record, 4, tmp_path / "other")
    said = guiagent(
        "replay", str(other), "--episode", stored(record).id, "--on", "sim-1", "--patience", "0", code=1
    )
    assert verdicts(said) == ["differs"]
    assert re.search(r"step 1 +differs \d+% +click \d+, \d+  at \d+,\d+ \d+x\d+\n", said)
    assert "stopped   at step 1 of 4" in said


def test_keys_that_moved_are_found_by_their_names(guiagent: Command, record: Path, tmp_path: Path) -> None:
    other = with_seed(record, 4, tmp_path / "other")
    said = guiagent(
        "replay", str(other), "--episode", stored(record).id, "--on", "sim", "--heal", "--patience", "0"
    )
    assert verdicts(said) == ["healed", "healed", "healed", "healed", "differs"]
    [folder] = (other / "replayed").iterdir()
    was, now = stored(record), stored(folder)
    assert now.steps[0].policy.actions != was.steps[0].policy.actions
    assert now.steps[1].policy.actions[0]["text"] == "bc"


def test_somebody_goes_on_from_there_and_it_is_one_record(guiagent: Command, record: Path) -> None:
    said = guiagent(
        "replay", str(record), "--episode", stored(record).id, "--on", "sim", "--steps", "2", "--branch"
    )
    device = re.search(r"^sim-\d$", said, re.MULTILINE)
    assert device is not None, said
    guiagent("do", device[0], "type", "x")
    guiagent("release", device[0])
    branches = [stored(folder) for folder in (record / "replayed").iterdir()]
    [branch] = [one for one in branches if one.stop == "agent_done" and len(one.steps) == 3]
    assert (branch.parent, branch.forked_at) == (stored(record).id, 2)
    assert branch.steps[2].policy.actions == [{"type": "type", "text": "x"}]


def test_a_policy_goes_on_from_there(guiagent: Command, record: Path) -> None:
    words = ("--episode", stored(record).id, "--on", "sim", "--steps", "1", "--policy", "centre")
    said = guiagent("replay", str(record), *words, "--max-steps", "2")
    assert "branch    max_steps" in said
    assert any(
        one.forked_at == 1 and len(one.steps) == 3 for one in map(stored, (record / "replayed").iterdir())
    )


def test_what_the_record_did_not_keep_has_to_be_given(
    guiagent: Command, record: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    with (
        TrajectoryStore(record / "trajectories", readonly=True) as source,
        TrajectoryStore(other / "trajectories") as store,
    ):
        [one] = source
        for hash in {*(step.frame for step in one.steps), one.final_frame}:
            store.put_frame(source.frame(hash))
        one.steps[1].policy.actions = [{"type": "type", "text": HIDDEN}]
        store.commit([one])
    words = ("replay", str(other), "--episode", one.id, "--on", "sim", "--patience", "0")
    assert "give it in $GUIAGENT_SECRET" in guiagent(*words, code=1)
    assert verdicts(guiagent(*words, GUIAGENT_SECRET="bc")) == ["same"] * 5


@pytest.mark.drill  # two farms start
@pytest.mark.browser
def test_a_tasks_episode_is_set_up_and_scored_anew(guiagent: Command, tmp_path: Path) -> None:
    """Of an evaluation, on a browser of its own farm: no farm is named, and none runs."""
    run = tmp_path / "eval"
    words = ("--policy", "oracle", "--tasks", "click-test", "--episodes", "1", "--devices", "1")
    alone = {"GUIAGENT_POOL": ""}
    guiagent("eval", *words, "--baselines", "none", "--run", str(run), **alone)
    [folder] = {path.parent for path in run.rglob("trajectories")}
    said = guiagent("replay", str(folder), "--episode", stored(folder).id, "--on", "browser", **alone)
    assert verdicts(said) == ["same"] * 2
    assert "score     1, recorded 1" in said


def test_bad_wishes_are_one_line(guiagent: Command, record: Path) -> None:
    id = stored(record).id
    for words, why in (
        (("--heal",), "--on browser"),
        (("--on", "sim"), "say which episode"),
        (("--on", "sim", "--episode", "nobody"), "no episode nobody in"),
        (("--on", "sim", "--episode", id, "--branch", "--policy", "tiny"), "either you go on"),
    ):
        said = guiagent("replay", str(record), *words, code=2)
        assert why in said and "\n" not in said, said


BUTTON = Node("button", "Save", (10, 10, 40, 20))
MOVED = Node("button", "Save", (110, 60, 80, 40))
FIELD = Node("textbox", "Name", (0, 0, 50, 10), states=("focused",))


@pytest.mark.parametrize(
    ("action", "element", "tree", "outcome"),
    [
        (Click(x=20, y=20), BUTTON, [MOVED], Click(x=130, y=80)),
        (Click(x=20, y=20), BUTTON, [MOVED, BUTTON], Click(x=20, y=20)),
        (
            Click(x=20, y=20),
            BUTTON,
            [MOVED, Node("button", "Save", (0, 90, 5, 5))],
            "there are 2 of button 'Save'",
        ),
        (Click(x=20, y=20), BUTTON, [FIELD], "there is no button 'Save' now"),
        (Click(x=20, y=20), BUTTON, [Node("link", "Save", BUTTON.box)], "there is no button"),
        (Click(x=20, y=20), BUTTON, [Node("button", "Save", (900, 10, 40, 20))], "beside the screen"),
        (Click(x=20, y=20), None, [MOVED], "does not say at which element"),
        (Drag(path=((20, 20), (90, 90))), BUTTON, [MOVED], "a movement from it"),
        (Type(text="x"), FIELD, [FIELD], Type(text="x")),
        (Type(text="x"), FIELD, [BUTTON], "textbox 'Name' has not the keyboard"),
        (KeyChord(keys=("Enter",)), None, [], KeyChord(keys=("Enter",))),
    ],
)
def test_an_action_is_aimed_at_the_element_that_it_hit(
    action: Action, element: Node | None, tree: list[Node], outcome: Action | str
) -> None:
    if isinstance(outcome, str):
        with pytest.raises(Lost, match=outcome):
            healed(action, element, tree, (320, 240))
    else:
        assert healed(action, element, tree, (320, 240)) == outcome
