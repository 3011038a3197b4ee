"""The small judge: a model of 1.5 million parameters that says whether an episode met its instruction.

It stands in, behind the same protocol, where no large model is available. Its votes are on the same case,
shifted by a few pixels: the position of a vision model's patches must not decide, and votes sampled from one
probability would add noise and no evidence. A vote passes or fails by two thresholds on its probability,
measured when the judge was trained; between them the vote is None, unreadable. See docs/tiny.md.
"""

import asyncio
import itertools
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import msgspec
import xxhash

from guiagent.errors import DECODE_ERRORS, Fault, FaultError, InfrastructureError, UsageError
from rewards.judges.cases import JudgeInput
from rewards.judges.verdicts import Rule, Usage, Verdict, Vote, decide
from training.inputs.encoder import Encoder
from training.model.pretrained import open_model
from training.tiny.reading import Shown, show, verdicts

SMALL_JUDGE = Path(__file__).parent / "judge"
SHIFTS = ((0, 0), (3, 2), (-2, 4), (4, -3), (-4, -2), (2, -5), (-5, 3), (5, 5))  # pixels right and down
_VOTES = 3
_MAX_BATCH = 16  # cases judged together


class Thresholds(msgspec.Struct, frozen=True):
    """`judge.json` of a judge's checkpoint: a vote passes from `pass_from` on, and fails up to `fail_to`."""

    pass_from: float
    fail_to: float

    def vote(self, p: float) -> Vote:
        if p >= self.pass_from:
            return 1.0
        return 0.0 if p <= self.fail_to else None

    @classmethod
    def read(cls, checkpoint: Path) -> "Thresholds":
        """Read the thresholds of a checkpoint. Raises InfrastructureError if there are none."""
        path = checkpoint / "judge.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, *DECODE_ERRORS) as error:
            raise InfrastructureError(
                f"no thresholds of a judge in {path}: {error}; `guiagent train --recipe tiny-judge` makes one"
            ) from error


class _Request(NamedTuple):
    case: JudgeInput
    answer: "Future[_Answer]"


class _Answer(NamedTuple):
    probabilities: list[float]  # one per vote
    tokens: int


class SmallJudge:
    """The small judge as a `rewards.judges.verdicts.Judge`; it batches waiting cases in a thread of its own.

    With the rule "all" it abstains if readable votes disagree, with "majority" only if too few are readable.
    A case that cannot be shown (no screens, a frame that is not a picture) gets a verdict with a fault.

    Raises:
        InfrastructureError: the folder holds no judge.
        UsageError: `votes` is out of range.
    """

    def __init__(
        self,
        checkpoint: Path = SMALL_JUDGE,
        *,
        votes: int = _VOTES,
        rule: Rule = "all",
        min_valid: int | None = None,
    ) -> None:
        if not 1 <= votes <= len(SHIFTS):
            raise UsageError(f"the small judge has 1 to {len(SHIFTS)} votes, not {votes}")
        self._thresholds = Thresholds.read(checkpoint)
        self._encoder = Encoder(checkpoint)
        self._network = open_model(checkpoint).float()  # it is shipped in half precision, slow on a CPU
        self._shifts = SHIFTS[:votes]
        self._rule: Rule = rule
        self._min_valid = min_valid
        least = "" if min_valid is None else f"-of-{min_valid}"
        self._name = f"small-{votes}-{rule}{least}-{_digest(checkpoint)}"
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._serve, name="judge", daemon=True)
        self._worker.start()

    @property
    def name(self) -> str:
        return self._name

    async def judge(self, case: JudgeInput) -> Verdict:
        """Judge one case. An exception of the model is raised for every case of its batch."""
        if not self._worker.is_alive():
            raise RuntimeError("the judge is closed")
        if not case.screens:
            return self._fault("no_screens", "there is nothing to look at")
        begun = time.perf_counter()
        request = _Request(case, Future())
        self._requests.put(request)
        try:
            answer = await asyncio.wrap_future(request.answer)
        except (FaultError, UsageError) as error:
            return self._fault("bad_frame", str(error))
        usage = Usage(prompt_tokens=answer.tokens, seconds=time.perf_counter() - begun)
        return verdict_of(
            answer.probabilities, self._thresholds, self._rule, self._name, usage, self._min_valid
        )

    async def close(self) -> None:
        """End the worker thread. Waiting cases are answered first; those that come too late are cancelled."""
        self._requests.put(None)
        await asyncio.to_thread(self._worker.join)
        while not self._requests.empty():
            if (late := self._requests.get()) is not None:
                late.answer.cancel()

    def _fault(self, code: str, message: str) -> Verdict:
        return Verdict(None, self._name, reason=message, fault=Fault("judge", code, message))

    # -- the worker thread ----------------------------------------------------------------------------------

    def _serve(self) -> None:
        while (first := self._requests.get()) is not None:
            waiting = [first]
            while len(waiting) < _MAX_BATCH and not self._requests.empty():
                request = self._requests.get()
                if request is None:
                    self._requests.put(None)
                    break
                waiting.append(request)
            batch = [request for request in waiting if request.answer.set_running_or_notify_cancel()]
            try:
                self._answer(batch)
            except Exception as error:  # raised for the waiting cases; the thread goes on
                for request in batch:
                    if not request.answer.done():
                        request.answer.set_exception(error)

    def _answer(self, batch: Sequence[_Request]) -> None:
        """Answer all votes on all cases in one call; a case that cannot be shown gets its exception."""
        shown: list[tuple[_Request, list[Shown]]] = []
        for request in batch:
            try:
                shown.append((request, [show(request.case, self._encoder, by) for by in self._shifts]))
            except (FaultError, UsageError) as error:  # not a picture, or one of an unsupported shape
                request.answer.set_exception(error)
        found = iter(verdicts(self._network, self._encoder, [vote for _, votes in shown for vote in votes]))
        for request, votes in shown:
            own = list(itertools.islice(found, len(votes)))
            request.answer.set_result(_Answer(own, sum(len(vote.ids) for vote in votes)))


def verdict_of(
    probabilities: Sequence[float],
    thresholds: Thresholds,
    rule: Rule,
    judge: str,
    usage: Usage,
    min_valid: int | None = None,
) -> Verdict:
    """Turn probabilities into votes and a verdict; if votes disagree, the rule "all" abstains."""
    votes = tuple(thresholds.vote(p) for p in probabilities)
    value = decide(votes, rule, min_valid)
    reason = "p " + " ".join(f"{p:.2f}" for p in probabilities)
    if rule == "all" and {0.0, 1.0} <= set(votes):
        value, reason = None, f"{reason}: the votes disagree"
    elif value is None:
        reason = f"{reason}: neither {thresholds.pass_from:.2f} nor down to {thresholds.fail_to:.2f}"
    return Verdict(value, judge, votes, reason, usage=usage)


def _digest(checkpoint: Path) -> str:
    digest = xxhash.xxh3_64(repr(SHIFTS).encode())
    for name in ("judge.json", "config.json", "tokenizer.json", "model.safetensors"):
        digest.update((checkpoint / name).read_bytes())
    return digest.hexdigest()[:8]
