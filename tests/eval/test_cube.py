"""A leased device for CUBE's tasks, without CUBE: what is shown, lines of refusal, ends, faults, leases."""

import asyncio
import importlib.util
import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from PIL import Image

from eval.doors.cube.seat import Seat, place_of
from eval.stepping import SuiteTasks
from guiagent.client.local_pool import private_pool
from guiagent.client.sync import Farm, connect
from guiagent.errors import Fault, FaultError, MissingProgram, UsageError
from guiagent.wire import Endpoint

TASKS = SuiteTasks("lab", "evaluation")
TASK, SEED = "reach-2", TASKS.seeds(1)[0]
NOTHING: dict[str, Any] = {"ms": 0}


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    with private_pool("lab=2@160x224") as endpoint, connect(place_of(None, endpoint)) as connected:
        yield connected


@pytest.fixture
def seat(farm: Farm) -> Iterator[Seat]:
    made = Seat(TASKS, door="cube", pool=place_of(None, farm.endpoint))
    yield made
    made.close()


def held(farm: Farm) -> list[str]:
    return [device.label for device in farm.devices().devices if device.label]


def dark(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(*_: Any) -> None:
        raise FaultError(Fault("device", "crashed", "the screen went dark", retryable=True))

    monkeypatch.setattr("guiagent.client.device.LeasedDevice.act", act)


def test_the_cube_says_in_one_line_that_its_package_is_missing() -> None:
    if importlib.util.find_spec("cube") is not None:
        pytest.skip("CUBE is installed here")
    with pytest.raises(MissingProgram, match=r"^cube-standard is not installed: pip install '.*'$"):
        importlib.import_module("eval.doors.cube.benchmark")


@pytest.mark.parametrize(
    ("begin", "line"),
    [
        (lambda seat: SuiteTasks("labb", "evaluation"), r"^no suite 'labb'.*lab"),
        (lambda seat: SuiteTasks("lab", "test"), r"^no split 'test': train or evaluation$"),
        (lambda seat: seat.begin("reach-3000", SEED), r"reach-3000"),
        (lambda seat: seat.begin(TASK, 7), r"^7 is no seed for evaluation: those are 1,000,000,000 to .*$"),
        (lambda seat: seat.begin(TASK, -1), r"^-1 is no seed for evaluation: .*$"),
    ],
)
def test_what_is_no_task_is_one_line_and_leases_nothing(
    farm: Farm, seat: Seat, begin: Callable[[Seat], object], line: str
) -> None:
    with pytest.raises(UsageError, match=line) as told:
        begin(seat)
    assert "\n" not in str(told.value) and not held(farm)


def test_a_task_shows_its_instruction_its_elements_and_the_screen(seat: Seat) -> None:
    text, picture = seat.begin(TASK, SEED)
    assert text.startswith('Go to "Orders".\n\n') and "link 'Events' at x=80 y=48" in text
    assert Image.open(io.BytesIO(picture)).size == (160, 224)
    assert seat.call("wait", NOTHING).picture == picture  # nothing changed, and it is shown again


def test_a_model_sees_what_it_is_to_see(farm: Farm) -> None:
    pool = place_of(None, farm.endpoint)
    screen = Seat(TASKS, door="cube", pool=pool, see="screen")
    elements = Seat(TASKS, door="cube", pool=pool, see="elements")
    try:
        assert screen.begin(TASK, SEED).text == 'Go to "Orders".'
        assert "link 'Events'" in elements.begin(TASK, SEED).text
        assert screen.call("wait", NOTHING).picture and not elements.call("wait", NOTHING).picture
    finally:
        screen.close()
        elements.close()


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        ("shell", {"command": "id"}, r"^there is no tool 'shell': look, answer, click, .*$"),
        ("__class__", {}, r"^there is no tool '__class__': .*$"),
        ("x" * 10_000, {}, r"^there is no tool 'x{40}': .*$"),
        ("click", {"x": -1, "y": 0}, r"^click: x: Input should be greater than or equal to 0$"),
        ("click", {"x": "a", "y": 0}, r"^click: x: .*$"),
        ("click", {"x": 1, "y": 0, "self": 1}, r"^click: .*$"),
        ("type", {"text": "a" * 10_000}, r"^type: text: .*at most 4096 characters$"),
    ],
)
def test_what_is_no_action_is_one_line_and_the_task_goes_on(
    seat: Seat, tool: str, arguments: dict[str, Any], line: str
) -> None:
    seat.begin(TASK, SEED)
    with pytest.raises(UsageError, match=line) as told:
        seat.call(tool, arguments)
    assert len(str(told.value)) < 300 and not seat.over
    assert "link 'Events'" in seat.call("wait", NOTHING).text


def test_a_task_that_has_ended_is_not_acted_on_until_another_one_begins(farm: Farm, seat: Seat) -> None:
    seat.begin(TASK, SEED)
    assert seat.call("done", {}).text == "The task has ended." and seat.over
    with pytest.raises(UsageError, match=r"^the task has ended: nothing was done$"):
        seat.call("wait", NOTHING)
    assert [seat.score(), seat.score(), held(farm)] == [0.0, 0.0, ["cube"]]
    seat.begin(TASK, SEED)
    assert not seat.over and held(farm) == ["cube"]  # on the same device
    assert seat.score() == 0.0 and seat.over  # who asks for the score ends it


def test_the_last_step_ends_a_task(farm: Farm) -> None:
    short = Seat(TASKS, door="cube", pool=place_of(None, farm.endpoint), max_steps=2)
    try:
        short.begin(TASK, SEED)
        assert "link 'Events'" in short.call("wait", NOTHING).text and not short.over
        assert short.call("wait", NOTHING).text == "The task has ended." and short.score() == 0.0
    finally:
        short.close()


def test_seats_share_no_device_and_give_theirs_back(farm: Farm, seat: Seat) -> None:
    other = Seat(TASKS, door="cube", pool=place_of(None, farm.endpoint))
    seat.begin(TASK, SEED)
    other.begin(TASK, SEED)
    assert held(farm) == ["cube", "cube"]
    other.close()
    other.close()
    assert held(farm) == ["cube"]
    with pytest.raises(UsageError, match=r"^reset first: there is no task, or it could not begin$"):
        other.call("wait", NOTHING)
    other.begin(TASK, SEED)  # on a new lease
    assert held(farm) == ["cube", "cube"]
    other.close()


def test_a_fault_is_no_score_and_the_next_task_has_another_device(
    farm: Farm, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat.begin(TASK, SEED)
    with monkeypatch.context() as broken:
        dark(broken)
        with pytest.raises(FaultError, match="the screen went dark"):
            seat.call("wait", NOTHING)
    for work in (lambda: seat.call("wait", NOTHING), seat.score):
        with pytest.raises(FaultError, match="the screen went dark"):
            work()
    assert not held(farm)
    seat.begin(TASK, SEED)
    assert seat.score() == 0.0


def test_a_task_that_cannot_begin_has_no_score(
    farm: Farm, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat.begin(TASK, SEED)
    seat.call("done", {})

    async def reset(*_: Any) -> None:
        raise FaultError(Fault("device", "crashed", "it did not start", retryable=True))

    with monkeypatch.context() as broken:
        broken.setattr("guiagent.client.device.LeasedDevice.reset", reset)
        with pytest.raises(FaultError, match="it did not start"):
            seat.begin(TASK, SEED)
    with pytest.raises(UsageError, match=r"^reset first: there is no task"):
        seat.score()  # not the one of the task before
    assert not held(farm)


def test_who_closes_waits_for_the_call_that_goes_on(
    farm: Farm, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat.begin(TASK, SEED)
    assert seat._rollout is not None
    episode, begun, may_end = seat._rollout._episode, Event(), Event()
    step = episode.step

    async def held_up(*actions: Any) -> Any:
        begun.set()
        assert await asyncio.to_thread(may_end.wait, 30)
        return await step(*actions)

    monkeypatch.setattr(episode, "step", held_up)
    with ThreadPoolExecutor(2) as others:
        going = others.submit(seat.call, "wait", NOTHING)
        assert begun.wait(30)
        closing = others.submit(seat.close)
        with pytest.raises(TimeoutError):
            closing.result(0.3)
        may_end.set()
        assert "link 'Events'" in going.result(30).text
        closing.result(30)
    assert not held(farm)


def test_a_pool_is_named_for_other_processes_without_its_token() -> None:
    found = Endpoint("http://127.0.0.1:8700", "secret", 1, page="file:///tmp/a%20pool/live.html")
    assert place_of(None, found) == "/tmp/a pool"
    assert place_of("http://pool:8700", found) == "http://pool:8700"
