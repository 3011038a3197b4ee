"""Trajectories out in the formats of others, and in again: the same actions, frames by digest, and scores."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner, Result

from guiagent.actions import ACTIONS, Scroll, Swipe, off_screen
from guiagent.cli import app
from guiagent.dialects import DIALECTS, find_dialect
from guiagent.errors import UsageError
from guiagent.formats.words import in_words, turned
from guiagent.seeds import EVALUATION
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Ending, PolicyOutput, Score, Step, Trajectory
from tests.support.watched import fault, picture

WIDTH, HEIGHT = 1000, 600
ACTED: list[list[dict[str, Any]]] = [
    [{"type": "click", "x": 40, "y": 60}],
    [{"type": "type", "text": 'naïve "quotes"\n</script>'}],
    [{"type": "key", "keys": ["Control", "a"]}],
    [{"type": "scroll", "x": 500, "y": 300, "dx": 0, "dy": 500}],
    [{"type": "done", "status": "success"}],
]


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def played(store: TrajectoryStore, id: str, value: float = 1.0, **more: Any) -> Trajectory:
    """An episode in the words of ui-tars, a frame of its own for each turn."""
    dialect = find_dialect("ui-tars")
    steps = []
    for number, acted in enumerate(ACTED):
        actions = ACTIONS.validate_python(acted)
        text = dialect.render(actions, (WIDTH, HEIGHT))
        read = [action.model_dump(mode="json") for action in dialect.parse(text, (WIDTH, HEIGHT))]
        frame = store.put_frame(picture(f"#{number + 1}0{len(id)}", (WIDTH, HEIGHT)))
        steps.append(Step(frame, WIDTH, HEIGHT, PolicyOutput(f"Thought: {number}\n{text}", read)))
    steps[0].policy.completion_ids, steps[0].policy.logprobs = [5, 6], [-0.5, -1.5]
    fields: dict[str, Any] = {
        "task": "mail/send ../../etc",
        "seed": 7,
        "instruction": "Send “it” to <b>Bob</b>.",
        "steps": steps,
        "stop": "agent_done",
        "score": Score(value, reason="the row is there", evidence={"rows": [1]}),
        "ending": Ending(claim="success"),
        "final_frame": store.put_frame(picture("#abc", (WIDTH, HEIGHT))),
    }
    return Trajectory(id, **(fields | more))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a success, a failure, an episode with a fault and one on a seed of evaluation."""
    with TrajectoryStore(tmp_path / "run" / "trajectories") as store:
        store.commit(
            [
                played(store, "../a b"),
                played(store, "failed", 0.0),
                fault(store, "broken", "gone"),
                played(store, "measured", seed=EVALUATION.start),
            ]
        )
    return tmp_path / "run"


def stored(run: Path) -> dict[str, Trajectory]:
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        for one in store:
            for hash in filter(None, (*(step.frame for step in one.steps), one.final_frame)):
                store.frame(hash)
        return {one.id: one for one in store}


def told(one: Trajectory) -> dict[str, Any]:
    """What has to come back from a round trip."""
    return {
        "about": (one.id, one.task, one.seed, one.instruction, one.stop, one.ending),
        "score": one.score and (one.score.value, one.score.source, one.score.reason),
        "frames": [(step.frame, step.width, step.height) for step in one.steps] + [(one.final_frame, 0, 0)],
        "actions": [step.policy.actions for step in one.steps],
        "texts": [step.policy.text for step in one.steps],
        "errors": [step.policy.error is not None for step in one.steps],
    }


@pytest.mark.parametrize("form", ["sft", "sft --embed", "osworld", "atif", "lerobot"])
def test_out_and_in_again_nothing_has_changed(run: Path, tmp_path: Path, form: str) -> None:
    name, *options = form.split()
    out = invoke("export", run, "--as", name, "--to", tmp_path / "out", *options)
    assert out.exit_code == 0, out.output
    assert "3 episodes, 15 turns" in out.output and "1 with a fault" in out.output
    assert "1 episodes are on seeds of evaluation" in out.output
    back = invoke("import", tmp_path / "out", "--as", name, "--run", tmp_path / "back")
    assert back.exit_code == 0, back.output
    assert "1 episodes are on seeds of evaluation" in back.output and "guiagent train" not in back.output
    before, after = stored(run), stored(tmp_path / "back")
    del before["broken"]
    assert {id: told(one) for id, one in after.items()} == {id: told(one) for id, one in before.items()}
    outside = [
        path
        for path in tmp_path.rglob("*")
        if path.relative_to(tmp_path).parts[0] not in ("run", "out", "back")
    ]
    assert outside == []


@pytest.mark.parametrize("form", ["sft --dialect json", "osworld", "atif", "lerobot"])
def test_several_actions_in_a_reply_jpeg_frames_and_no_last_screen(tmp_path: Path, form: str) -> None:
    name, *options = form.split()
    jpeg = io.BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT), "navy").save(jpeg, "jpeg")
    said = [{"type": "click", "x": 4, "y": 6}, {"type": "type", "text": "a"}, {"type": "wait", "ms": 500}]
    actions = [one.model_dump(mode="json") for one in ACTIONS.validate_python(said)]
    with TrajectoryStore(tmp_path / "run" / "trajectories") as store:
        steps = [
            Step(store.put_frame(jpeg.getvalue()), WIDTH, HEIGHT, PolicyOutput("go", actions)) for _ in "ab"
        ]
        store.commit(
            [played(store, "a", 0.25, steps=steps, ending=Ending(), stop="max_steps", final_frame="")]
        )
    invoke("export", tmp_path / "run", "--as", name, "--to", tmp_path / "out", *options)
    back = invoke("import", tmp_path / "out", "--as", name, "--run", tmp_path / "back", *options)
    assert back.exit_code == 0, back.output
    before, after = told(stored(tmp_path / "run")["a"]), told(stored(tmp_path / "back")["a"])
    if name == "sft":  # whose words are the dialect's
        del before["texts"], after["texts"]
    assert after == before


@pytest.mark.parametrize("form", ["sft", "osworld", "atif", "lerobot"])
def test_faulted_episodes_are_kept_on_request_and_come_back_masked(
    run: Path, tmp_path: Path, form: str
) -> None:
    out = invoke("export", run, "--as", form, "--to", tmp_path / "out", "--faulted")
    assert "4 episodes" in out.output
    assert invoke("import", tmp_path / "out", "--as", form, "--run", tmp_path / "back", "--demonstrations")
    after = stored(tmp_path / "back")["broken"]
    assert not after.valid and after.fault is not None and after.fault.code == "crashed"


def test_of_several_stores_an_id_begins_with_its_store(tmp_path: Path) -> None:
    for policy in ("oracle", "random"):
        with TrajectoryStore(tmp_path / "run" / policy / "trajectories") as store:
            store.commit([played(store, "task/7")])
    assert invoke("export", tmp_path / "run", "--as", "osworld", "--to", tmp_path / "out").exit_code == 0
    assert invoke("import", tmp_path / "out", "--as", "osworld", "--run", tmp_path / "back").exit_code == 0
    assert sorted(stored(tmp_path / "back")) == ["oracle/task/7", "random/task/7"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--as", "atif", "--dialect", "json"], "leave --dialect out"),
        (["--as", "osworld", "--embed"], "--embed is for sft"),
        (["--as", "sft", "--dialect", "wizard"], "no dialect 'wizard'"),
    ],
)
def test_options_that_contradict_are_refused(run: Path, tmp_path: Path, words: list[str], said: str) -> None:
    refused = invoke("export", run, "--to", tmp_path / "out", *words)
    assert isinstance(refused.exception, UsageError) and said in str(refused.exception)
    assert not (tmp_path / "out").exists()


def test_parquet_without_its_package_says_how_to_get_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused = invoke("export", run, "--as", "parquet", "--to", tmp_path / "out")
    assert "pip install 'guiagent[parquet]'" in str(refused.exception) and not (tmp_path / "out").exists()


def test_successes_alone(run: Path, tmp_path: Path) -> None:
    out = invoke("export", run, "--as", "sft", "--to", tmp_path / "out", "--successes")
    assert "2 episodes" in out.output and "1 not successful" in out.output


def test_messages_are_what_an_api_takes(run: Path, tmp_path: Path) -> None:
    import datasets

    invoke("export", run, "--as", "sft", "--to", tmp_path / "out", "--dialect", "qwen3-computer")
    lines = (tmp_path / "out" / "train.jsonl").read_text().splitlines()
    chat = json.loads(lines[0])["messages"]
    assert [one["role"] for one in chat] == ["system"] + ["user", "assistant"] * len(ACTED)
    first = chat[1]["content"]
    assert [part["type"] for part in first] == ["text", "image_url"]
    assert (tmp_path / "out" / first[1]["image_url"]["url"]).read_bytes() == picture("#106", (WIDTH, HEIGHT))
    table = datasets.load_dataset(
        "json", data_dir=str(tmp_path / "out"), cache_dir=str(tmp_path), split="train"
    )
    assert [row["score"]["value"] for row in table] == [1.0, 0.0, 1.0]
    dialect = find_dialect("qwen3-computer")
    said = [one["content"][0]["text"] for one in chat if one["role"] == "assistant"]
    assert [dialect.parse(text, (WIDTH, HEIGHT))[0].type for text in said] == [a[0]["type"] for a in ACTED]


def test_a_reply_without_an_action_is_shown_and_not_learned(tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "run") as store:
        one = played(store, "a", stop="parse_error", ending=Ending())
        one.steps[-1].policy = PolicyOutput("I give up", error="no action")
        store.commit([one])
    for form in ("sft", "osworld", "atif", "lerobot"):
        out = invoke("export", tmp_path / "run", "--as", form, "--to", tmp_path / form)
        assert "turns     1 without a valid action" in out.output
        invoke("import", tmp_path / form, "--as", form, "--run", tmp_path / f"{form}-back")
        after = stored(tmp_path / f"{form}-back")["a"]
        assert told(after)["errors"] == [False] * 4 + [True], form
    weights = [
        m["weight"]
        for m in json.loads((tmp_path / "sft/train.jsonl").read_text())["messages"]
        if "weight" in m
    ]
    assert weights == [1, 1, 1, 1, 0]


def test_an_episode_that_a_language_cannot_tell_is_left_out(tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "run") as store:
        one = played(store, "opened")
        one.steps[1].policy = PolicyOutput("open", [{"type": "open", "target": "Files"}])
        store.commit([one, played(store, "clicked")])
    out = invoke("export", tmp_path / "run", "--as", "osworld", "--to", tmp_path / "out")
    assert "1 episodes" in out.output and "1 with an action that the language has no words for" in out.output
    assert invoke("export", tmp_path / "run", "--as", "atif", "--to", tmp_path / "all").exit_code == 0
    assert len(list((tmp_path / "all").glob("*.json"))) == 2


@given(*[st.integers(0, 999) for _ in range(2)], st.integers(-2000, 2000), st.integers(-2000, 2000))
def test_a_scroll_is_the_swipe_against_it_and_back(x: int, y: int, dx: int, dy: int) -> None:
    size = (1000, 1000)
    swipe = turned(Scroll(x=x, y=y, dx=dx, dy=dy), size)
    assert isinstance(swipe, Swipe) and off_screen(swipe, *size) is None
    back = turned(swipe, size)
    assert isinstance(back, Scroll)
    for way, said, place in ((dx, back.dx, x), (dy, back.dy, y)):
        assert said * way >= 0 and abs(said) <= abs(way) + 1
        if abs(way) // 2 < min(place, 999 - place):
            assert abs(said - way) <= 1


@pytest.mark.parametrize(
    "name", [name for name in DIALECTS if name not in ("anthropic-20241022", "ui-venus-ground")]
)
def test_a_language_with_one_of_scroll_and_swipe_says_both(name: str) -> None:
    dialect = find_dialect(name)
    for action in (Scroll(x=500, y=300, dy=300), Swipe(x1=500, y1=450, x2=500, y2=150)):
        (said,) = dialect.parse(in_words([action], dialect, (WIDTH, HEIGHT)), (WIDTH, HEIGHT))
        assert isinstance(said, Scroll | Swipe)
        as_scroll = said if isinstance(said, Scroll) else turned(said, (WIDTH, HEIGHT))
        assert isinstance(as_scroll, Scroll) and as_scroll.dy > 0


def test_atif_documents_pass_the_models_of_the_package(run: Path, tmp_path: Path) -> None:
    import atif

    invoke("export", run, "--as", "atif", "--to", tmp_path / "out")
    files = list((tmp_path / "out").glob("*.json"))
    assert len(files) == 3
    for file in files:
        read = atif.Trajectory.model_validate_json(file.read_text())
        assert read.has_multimodal_content() and len(read.steps) == 1 + len(ACTED)
        assert [step.tool_calls[0].function_name for step in read.steps[1:]] == [a[0]["type"] for a in ACTED]
        assert read.steps[1].metrics.completion_token_ids == [5, 6]
        image = read.steps[0].message[1].source
        assert (tmp_path / "out" / image.path).read_bytes().startswith(b"\x89PNG")


def test_parquet_comes_back_from_datasets_with_its_pictures(run: Path, tmp_path: Path) -> None:
    import datasets

    out = invoke("export", run, "--as", "parquet", "--to", tmp_path / "out")
    assert out.exit_code == 0, out.output
    table = datasets.load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    assert table["id"] == ["../a b", "failed", "measured"] and table["score"] == [1.0, 0.0, 1.0]
    row = table[0]
    assert [image.size for image in row["images"]] == [(WIDTH, HEIGHT)] * (len(ACTED) + 1)
    assert [json.loads(actions)[0]["type"] for actions in row["actions"]] == [a[0]["type"] for a in ACTED]
    raw = table.cast_column("images", datasets.List(datasets.Image(decode=False)))[0]["images"]
    assert raw[0]["bytes"] == picture("#106", (WIDTH, HEIGHT))
