"""The agent loop for verl on a lab device, with a stub of verl: rows, room for screenshots, faults."""

import asyncio
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from eval.stepping import SuiteTasks
from guiagent.client.local_pool import private_pool
from guiagent.errors import InfrastructureError, MissingProgram, UsageError
from guiagent.seeds import REINFORCEMENT

ROW = {"extra_info": {"task": "reach-2", "seed": REINFORCEMENT[5]}}
WAIT = '{"type": "wait", "ms": 0}'
PROMPT, SCREEN, SAMPLED = [1] * 10, [2] * 5, 3  # the stub's tokens


class Server:
    """Says the same at every turn, in four tokens or as many as it may."""

    def __init__(self, stop: str = "completed") -> None:
        self.asked: list[dict[str, Any]] = []
        self.stop = stop

    async def generate(self, **asked: Any) -> Any:
        self.asked.append(
            {**asked, "prompt_ids": list(asked["prompt_ids"]), "image_data": list(asked["image_data"])}
        )
        tokens = [SAMPLED] * min(4, asked["sampling_params"]["max_tokens"])
        version = {"min_global_steps": len(self.asked), "max_global_steps": len(self.asked)}
        return SimpleNamespace(
            token_ids=tokens, log_probs=[-0.5] * len(tokens), stop_reason=self.stop, extra_fields=version
        )


class Base:
    """What verl's AgentLoopBase does with tokens, on those of the stub."""

    def __init__(self, server_manager: Server, response_length: int) -> None:
        self.server_manager = server_manager
        self.rollout_config = SimpleNamespace(response_length=response_length)
        size = {"shortest_edge": 4096, "longest_edge": 524288}
        self.processor = SimpleNamespace(
            image_processor=SimpleNamespace(size=size, patch_size=16, merge_size=2)
        )
        self.mm_processor_kwargs = {"max_pixels": 65536}
        self.tokenizer = SimpleNamespace(decode=lambda ids, skip_special_tokens: WAIT)

    def _assert_mm_supported(self, has_multi_modal: bool) -> None:
        pass

    def _get_mm_processor_kwargs(self) -> dict[str, Any]:
        return self.mm_processor_kwargs

    async def ct_build_initial_tokens(self, turns: list[Any], images: list[Any]) -> list[int]:
        assert [part["type"] for part in turns[-1]["content"]] == ["text", "image"]
        return list(PROMPT)

    async def ct_merge_context_msg(
        self, before: list[Any], turns: list[Any], ids: list[int], mask: list[int], logprobs: list[float]
    ) -> Any:
        assert turns[:-1] == before and before[-1]["role"] == "assistant"
        more = [0] * len(SCREEN)
        return SimpleNamespace(token_ids=ids + SCREEN), mask + more, logprobs + [0.0 for _ in more]

    async def ct_merge_assistant_token(
        self, ids: list[int], said: list[int], mask: list[int], logprobs: list[float], assistant_logprobs: Any
    ) -> Any:
        return SimpleNamespace(token_ids=ids + said), mask + [1] * len(said), logprobs + assistant_logprobs


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    stub = ModuleType("verl.experimental.agent_loop")
    stub.AgentLoopBase, stub.AgentLoopOutput = Base, SimpleNamespace  # type: ignore[attr-defined]
    for name in ("verl", "verl.experimental"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, stub.__name__, stub)
    monkeypatch.delitem(sys.modules, "eval.doors.verl", raising=False)
    yield importlib.import_module("eval.doors.verl")
    sys.modules.pop("eval.doors.verl")


def played(door: Any, server: Server, response: int, row: dict[str, Any] = ROW, **settings: Any) -> Any:
    with private_pool("lab=1@160x224") as pool, pytest.MonkeyPatch.context() as patched:
        patched.setenv("GUIAGENT_TOKEN", pool.token)
        loop = door.GuiAgentLoop(server, response, suite="lab", pool=pool.url, **settings)
        return asyncio.run(loop.run({"temperature": 1.0, "logprobs": True}, **row))


def test_without_verl_one_line_says_how_to_get_it() -> None:
    with pytest.raises(MissingProgram, match="pip install verl"):
        importlib.import_module("eval.doors.verl")


def test_rows_are_tasks_on_their_first_seeds(door: Any) -> None:
    rows = door.rows(SuiteTasks("lab"), episodes=2)
    told = [one["extra_info"] for one in rows]
    assert told[1] == {"index": 1, "task": told[0]["task"], "seed": REINFORCEMENT[1]}
    assert {one["agent_name"] for one in rows} == {"guiagent"}
    with pytest.raises(UsageError, match="no tasks to learn from"):
        door.rows(SuiteTasks("lab-perturbed"))


def test_without_room_for_another_screenshot_the_state_is_scored(door: Any) -> None:
    server = Server()
    made = played(door, server, response=12)
    assert made.prompt_ids == PROMPT
    assert made.response_ids == [SAMPLED] * 4 + SCREEN + [SAMPLED] * 3
    assert made.response_mask == [1] * 4 + [0] * 5 + [1] * 3
    assert made.response_logprobs == [-0.5] * 4 + [0.0] * 5 + [-0.5] * 3
    assert made.reward_score == 0.0 and "no room" in made.extra_fields["guiagent"]["error"]
    assert [one["sampling_params"]["max_tokens"] for one in server.asked] == [12, 3]
    assert server.asked[1]["prompt_ids"] == PROMPT + [SAMPLED] * 4 + SCREEN
    assert [len(one["image_data"]) for one in server.asked] == [1, 2]
    assert len({one["request_id"] for one in server.asked}) == 1
    assert len(made.multi_modal_data["images"]) == 2
    versions = made.extra_fields["min_global_steps"], made.extra_fields["max_global_steps"]
    assert versions == (1, 2)


def test_an_episode_has_as_many_turns_as_it_may_have(door: Any) -> None:
    made = played(door, Server(), response=1000, max_steps=3, reply_tokens=2)
    assert made.response_mask == [1, 1, *[0] * 5, 1, 1, *[0] * 5, 1, 1]
    assert made.num_turns == 6 and made.extra_fields["guiagent"]["stop"] == "max_steps"


def test_a_reply_that_was_cut_is_a_fault_and_no_reward(door: Any) -> None:
    message = rf"no reward for reach-2, seed {ROW['extra_info']['seed']}: policy fault \(aborted\)"
    with pytest.raises(InfrastructureError, match=message):
        played(door, Server(stop="aborted"), response=100)


def test_places_are_pixels_of_the_pictures_that_the_processor_makes(door: Any) -> None:
    with private_pool("lab=1@160x224") as pool, pytest.MonkeyPatch.context() as patched:
        patched.setenv("GUIAGENT_TOKEN", pool.token)
        loop = door.GuiAgentLoop(Server(), 100, suite="lab", pool=pool.url, dialect="ui-tars")
    space = loop.dialect.space
    assert (space.factor, space.min_pixels, space.max_pixels) == (32, 4096, 65536)
