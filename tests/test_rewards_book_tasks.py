"""Proposals of a book as tasks: which ones, how they are set up, and that only a judge can score them."""

from pathlib import Path

import pytest

from guiagent.errors import FaultError, UsageError
from guiagent.protocols import Device
from guiagent.types import Ending, ObserveSpec
from rewards.proposals import Outcome, Proposal
from rewards.tasksets import find_taskset
from rewards.tasksets.book import BookTask
from rewards.validation import Book

SPEC = ObserveSpec(frame="png")


def written(path: Path) -> Path:
    with Book(path) as book:
        for name in ("good", "twice"):
            proposal = Proposal(name, f"Click on {name}.", "miniwob:click-test-2", 7, "zerogui")
            book.add(proposal, Outcome(name, refusal=None if name == "good" else "duplicate"))
    return path


def test_only_what_was_accepted_is_a_task(tmp_path: Path) -> None:
    tasks = find_taskset(f"book:{written(tmp_path / 'book.jsonl')}")
    assert list(tasks.names) == ["good"]
    with pytest.raises(UsageError, match="no proposal 'twice'"):
        tasks.task("twice", 0)


def test_a_book_that_is_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no book"):
        find_taskset(f"book:{tmp_path / 'none.jsonl'}")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(UsageError, match="no accepted proposal"):
        find_taskset(f"book:{tmp_path / 'empty.jsonl'}")


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_it_begins_on_the_screen_the_proposal_was_made_for(
    tmp_path: Path, browser_device: Device
) -> None:
    task = find_taskset(f"book:{written(tmp_path / 'book.jsonl')}").task("good", 1)
    instruction, shown = await task.setup(browser_device, SPEC)
    _, again = await find_taskset("miniwob").task("click-test-2", 7).setup(browser_device, SPEC)
    assert instruction == "Click on good."
    assert shown.hash == again.hash and shown.frame
    assert (await task.check(browser_device, shown, Ending(claim="success"))).value is None


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_a_start_that_is_not_there_is_the_tasks_fault(browser_device: Device) -> None:
    proposal = Proposal("lost", "Open the thing.", "No Such App", 0, "pae")
    with pytest.raises(FaultError) as caught:
        await BookTask(proposal, 0).setup(browser_device, SPEC)
    assert caught.value.fault.origin == "task"
