"""Configuration: who overrides whom, what a mistake says, and that what was saved loads as it was."""

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from guiagent.config import differences, load, save
from guiagent.errors import InfrastructureError, UsageError


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Optimizer(Closed):
    learning_rate: float = 1e-5
    betas: tuple[float, float] = (0.9, 0.999)


class Phase(Closed):
    steps: int = 1


class Run(Closed):
    name: str = "demo"
    out: Path = Path("runs/demo")
    steps: Annotated[int, Field(ge=1)] = 100
    algorithm: Literal["arpo", "grpo"] = "arpo"
    resume: bool = False
    note: str | None = None
    tasks: list[str] = ["click-test", "click-dialog"]
    optimizer: Optimizer = Optimizer()
    judge: Optimizer | None = None
    phases: list[Phase] = []
    weights: dict[str, float] = {}


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(text)
    return path


def complaint(*arguments: Any) -> str:
    with pytest.raises(UsageError) as caught:
        load(Run, *arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults_under_the_file_under_the_flags(tmp_path: Path) -> None:
    assert load(Run) == Run()
    toml = write(tmp_path, "steps = 5\nname = 'file'\n[optimizer]\nlearning_rate = 1e-3\n")
    assert load(Run, toml) == Run(steps=5, name="file", optimizer=Optimizer(learning_rate=1e-3))
    both = load(Run, toml, ["steps=7", "optimizer.betas=[0.5, 0.5]"])
    assert both == Run(steps=7, name="file", optimizer=Optimizer(learning_rate=1e-3, betas=(0.5, 0.5)))


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("steps=3", {"steps": 3}),
        ("optimizer.learning_rate = 5e-4", {"optimizer": {"learning_rate": 5e-4}}),
        ("resume=true", {"resume": True}),
        ("name=plain words", {"name": "plain words"}),
        ("name='quoted'", {"name": "quoted"}),
        ('name="5"', {"name": "5"}),
        ("name=2026-01-01", {"name": "2026-01-01"}),
        ("name=a=b", {"name": "a=b"}),
        ("name=", {"name": ""}),
        ("name=1\nsteps = 3", {"name": "1\nsteps = 3"}),
        ("out=/tmp/x", {"out": "/tmp/x"}),
        ("tasks=['a', 'b']", {"tasks": ["a", "b"]}),
        ("judge.learning_rate=1", {"judge": {"learning_rate": 1.0}}),
        ("weights.click-test=2", {"weights": {"click-test": 2.0}}),
    ],
)
def test_a_flag_takes_a_toml_value_or_else_a_string(override: str, expected: dict[str, Any]) -> None:
    assert load(Run, None, [override]) == Run.model_validate(expected)


def test_an_unknown_key_is_named_with_its_file_and_the_nearest_key(tmp_path: Path) -> None:
    toml = write(tmp_path, "[optimizer]\nlerning_rate = 1\n")
    said = complaint(toml)
    assert str(toml) in said
    assert "'optimizer.lerning_rate'" in said
    assert "did you mean 'optimizer.learning_rate'?" in said
    assert "did you mean 'steps'?" in complaint(None, ["stepps=1"])
    assert "did you mean 'optimizer.betas'?" in complaint(None, ["betas=[1, 1]"])
    assert "did you mean 'judge.betas'?" in complaint(None, ["judge.beta=[1, 1]"])
    assert "there are name, out, steps" in complaint(None, ["zzz=1"])
    assert complaint(toml, ["zzz=1"]).count("there is no key") == 1


def test_a_wrong_value_is_named_with_where_it_came_from(tmp_path: Path) -> None:
    toml = write(tmp_path, "steps = 'many'\n")
    assert complaint(toml).startswith(f"{toml}: steps: ")
    assert "'many'" in complaint(toml)
    assert complaint(write(tmp_path, ""), ["steps=0"]).startswith("--set: steps: ")
    assert complaint(None, ["algorithm=ppo"]).startswith("--set: algorithm: ")
    assert complaint(None, ["optimizer=5"]).startswith("--set: optimizer: ")


def test_a_list_of_words_without_quotes_is_told_how_to_write_it() -> None:
    said = complaint(None, ["optimizer.betas=[low, high]"])
    assert said.startswith("--set: optimizer.betas: ")
    assert said.endswith("""words in a list or table have quotes: --set 'key=["a", "b"]'""")


@pytest.mark.parametrize("override", ["steps", "=5", ".a=5", "a..b=5", "", "optimizer.=1"])
def test_a_flag_that_assigns_nothing_is_refused(override: str) -> None:
    assert "write it as key=value" in complaint(None, [override])


def test_a_flag_cannot_reach_into_a_value(tmp_path: Path) -> None:
    assert "'steps' is a value, not a table" in complaint(write(tmp_path, "steps = 5"), ["steps.more=1"])


def test_files_that_cannot_be_read_say_so(tmp_path: Path) -> None:
    assert "cannot read" in complaint(tmp_path / "missing.toml")
    assert "cannot read" in complaint(tmp_path)
    assert "is not TOML" in complaint(write(tmp_path, "a = = b"))
    binary = tmp_path / "run.toml"
    binary.write_bytes(b"\xff\xfe")
    assert "is not TOML" in complaint(binary)


def test_a_missing_key_says_which() -> None:
    class Needy(Closed):
        url: str

    with pytest.raises(UsageError, match="url: Field required"):
        load(Needy)


runs = st.builds(
    Run,
    name=st.text(),
    steps=st.integers(1, 10**12),
    resume=st.booleans(),
    note=st.none() | st.text(),
    tasks=st.lists(st.text(), max_size=3),
    optimizer=st.builds(Optimizer, learning_rate=st.floats(allow_nan=False)),
    judge=st.none() | st.builds(Optimizer, learning_rate=st.floats(allow_nan=False)),
    phases=st.lists(st.builds(Phase, steps=st.integers(-9, 9)), max_size=3),
    weights=st.dictionaries(st.text(), st.floats(allow_nan=False), max_size=3),
)


@given(runs)
def test_what_is_saved_loads_as_it_was(tmp_path_factory: pytest.TempPathFactory, run: Run) -> None:
    path = tmp_path_factory.getbasetemp() / "saved.toml"
    save(run, path)
    assert load(Run, path) == run


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot write"):
        save(Run(), tmp_path / "missing" / "run.toml")


def test_two_configs_differ_by_dotted_keys(tmp_path: Path) -> None:
    one = Run(optimizer=Optimizer(learning_rate=5e-4), note="first")
    other = Run(name="two", judge=Optimizer())
    found = differences(one, other)
    assert [str(one) for one in found] == [
        'name was "demo", now "two"',
        'note was "first", now not set',
        "optimizer.learning_rate was 0.0005, now 1e-05",
        "judge was not set, now {learning_rate = 1e-05, betas = [0.9, 0.999]}",
    ]
    left = differences(one, other, ignoring={"optimizer", "judge", "name"})
    assert [difference.key for difference in left] == ["note"]
    assert differences(one, one) == []


def test_a_long_value_is_cut_in_a_line_about_it() -> None:
    (found,) = differences(Run(), Run(tasks=["click-dialog"] * 100))
    assert len(str(found)) < 200 and str(found).endswith("…")


def test_keys_of_a_file_can_be_ignored_known_or_not(tmp_path: Path) -> None:
    text = "steps = 5\nname = 'file'\n[optimizer]\nlearning_rate = 1.0\nold = 1\n[gone]\na = 1\n"
    toml = write(tmp_path, text)
    loaded = load(Run, toml, ignoring={"steps", "gone", "optimizer.old"})
    assert loaded == Run(name="file", optimizer=Optimizer(learning_rate=1.0))
    assert "no key 'optimizer.old'" in complaint(toml, ())


def test_a_saved_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.toml"
    save(Run(name="first"), path)
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(InfrastructureError, match="No space left"):
        save(Run(name="second"), path)
    assert load(Run, path).name == "first"
    assert [file.name for file in tmp_path.iterdir()] == ["run.toml"]
