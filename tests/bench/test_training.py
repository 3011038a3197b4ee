"""What a peer is given to train on: the very contexts that the learner packs, an action a sample."""

from pathlib import Path

import pytest

from tests.bench import peers
from tests.bench.packed import apart, checkpoint, frames, trajectory, write
from tests.bench.peers import actions
from tests.bench.small_vlm import ACTION_TOKENS, TURNS, WINDOW
from tests.bench.training import _beside_trl, unequal
from training.inputs.contexts import contexts
from training.inputs.encoder import Encoder

RUN = {"actions": 8.0, "tokens": 99.0, "images": 20.0, "threads": 2.0, "bits": 32.0, "grad_norm": 1.5}


@pytest.mark.parametrize(("window", "screens"), [(WINDOW, 20), (TURNS, 36)])
def test_an_action_apart_is_what_its_context_holds_up_to_it(
    window: int, screens: int, tmp_path: Path
) -> None:
    write(tmp_path, 2, window)
    encoder = Encoder(tmp_path)
    for number, update in enumerate(actions.read(tmp_path)):
        whole = trajectory(encoder, frames(TURNS, number), TURNS, window, number)
        packed = contexts(whole)
        assert [one.completion for one in update] == [step.policy.completion_ids for step in whole.steps]
        assert sum(len(one.screens) for one in update) == screens
        for turn, one in enumerate(update):
            context = packed[turn // window]
            ids = [*one.prompt, *one.completion]
            assert ids == context.ids[: len(ids)]
            assert one.screens == context.frames[: turn % window + 1]
            places = one.prompt.count(encoder.image_token)
            assert places == sum(encoder.picture(_png(tmp_path, name)).tokens for name in one.screens)


def _png(folder: Path, name: str) -> bytes:
    return actions.screen(folder, name).read_bytes()


def test_every_sampled_token_lies_in_one_action(tmp_path: Path) -> None:
    encoder = Encoder(checkpoint(tmp_path))
    steps = list(apart(trajectory(encoder, frames(TURNS), TURNS, WINDOW)))
    assert [sum(step.sampled) for step in steps] == TURNS * [ACTION_TOKENS]
    assert all(all(step.sampled[-ACTION_TOKENS:]) for step in steps)


def told(monkeypatch: pytest.MonkeyPatch, **differing: float) -> list[str]:
    """Have runs return figures in place of training; which ones were asked for."""
    asked: list[str] = []

    def figures(python: Path, module: str, *arguments: object) -> dict[str, float]:
        asked.append(module.rpartition(".")[2] + (f" {arguments[1]}" if module.endswith("trl") else ""))
        if module == "tests.bench.packed":
            return RUN | {"seconds": 1.0, "cpu_seconds": 1.0, "peak_mb": 300.0, "packed": 30.0}
        size = int(str(arguments[1]))
        seconds = {1: 5.0, 2: 4.0, 4: 3.0, 8: 6.0}[size]
        return (
            RUN
            | {"seconds": seconds, "cpu_seconds": 4.5, "peak_mb": 200.0 * size, "padding": 7.0}
            | differing
        )

    monkeypatch.setattr(peers, "figures", figures)
    monkeypatch.setattr(peers, "trl", lambda: Path("python"))
    return asked


def test_the_peer_is_measured_at_its_fastest_in_turns_with_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = told(monkeypatch)
    wall, cpu, memory = _beside_trl(5, "in full", TURNS)
    tries = [name for name in asked if name.startswith("trl")][:-5]
    assert {tries.count(f"trl {size}") for size in (1, 2, 4, 8)} == {len(tries) // 4}
    assert asked[len(tries) :] == 5 * ["packed", "trl 4"]
    assert (wall.ratio, wall.spread, wall.verdict) == (3, (3, 3), "no")
    assert (cpu.ratio, cpu.verdict, memory.ratio) == (4.5, "yes", 800 / 300)
    assert "99 tokens and 20 screens of context on both sides, 30 tokens packed" in wall.note
    assert "passes of 4 samples" in wall.note and "it takes 200 MB" in memory.note


def test_a_peer_that_does_other_work_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, images=32.0)
    with pytest.raises(RuntimeError, match="images 20 and 32"):
        list(_beside_trl(1, "in full", TURNS))


def test_work_that_differs_is_said_to() -> None:
    assert unequal(RUN, RUN | {"grad_norm": 1.5004, "padding": 7.0}) == []
    assert unequal(RUN, RUN | {"tokens": 98.0}) == ["tokens 99 and 98"]
    assert unequal(RUN, RUN | {"bits": 16.0, "grad_norm": 1.4}) == [
        "bits 32 and 16",
        "the gradient's norm 1.5 and 1.4",
    ]
