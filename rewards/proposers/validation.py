"""Validate proposals: refuse duplicates, evaluation tasks and too many impossible ones; keep all in a book.

`Validator` decides before trial rollouts, `rewards.proposers.types.trial_outcome` after them. Every refusal
is an `Outcome` with its reason, and `ProposalLog` keeps them all.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import msgspec
import numpy as np

from guiagent.errors import DECODE_ERRORS, InfrastructureError, UsageError
from guiagent.storage.journal import Journal
from rewards.proposers import similarity
from rewards.proposers.similarity import Embed, Vectors
from rewards.proposers.types import Outcome, Proposal, Refusal, normalise

_CONTAMINATED = 0.6  # of an evaluation instruction's n-grams
_SHOWN = 120  # characters of another instruction in a reason


def allowed_infeasible(accepted: int, share: float) -> int:
    """How many of `accepted` proposals may be impossible ones, at a share in [0, 1]: rounded up."""
    return math.ceil(share * accepted)


class Validator:
    """Accepts or refuses proposals before their trials. Remembers what it accepted.

    `evaluation` are the instructions of evaluation suites, which must not be trained on. `infeasible` is the
    largest share of impossible tasks among the accepted. `cosine` is the least similarity of duplicates by
    `embed`.
    """

    def __init__(
        self,
        evaluation: Iterable[str] = (),
        *,
        embed: Embed = similarity.hashed_ngrams,
        cosine: float = similarity.COSINE,
        infeasible: float = 0.1,
    ) -> None:
        self._evaluation = list(dict.fromkeys(map(normalise, evaluation)))
        self._embed, self._cosine, self._share = embed, cosine, infeasible
        self._accepted: set[tuple[str, str]] = set()  # environment and normalised instruction
        self._alike: defaultdict[tuple[str, tuple[str, ...]], list[tuple[str, np.ndarray]]]
        self._alike = defaultdict(list)  # accepted ones by environment and values
        self._infeasible = 0

    async def outcome(self, proposal: Proposal) -> Outcome:
        """Accept and remember a proposal, or refuse it with the reason."""
        [vector] = await self._embed([proposal.instruction])
        refused = self._refusal(proposal, vector)
        if refused is not None:
            return Outcome(proposal.id, *refused)
        self._remember(proposal, vector)
        return Outcome(proposal.id)

    async def recall(self, accepted: Sequence[Proposal]) -> None:
        """Remember proposals that were accepted before."""
        vectors: Vectors | Sequence[np.ndarray] = ()
        if accepted:
            vectors = await self._embed([proposal.instruction for proposal in accepted])
        for proposal, vector in zip(accepted, vectors, strict=True):
            self._remember(proposal, vector)

    def _refusal(self, proposal: Proposal, vector: np.ndarray) -> tuple[Refusal, str] | None:
        text = normalise(proposal.instruction)
        if not similarity.words(text):
            return "malformed", "an instruction without a word"
        for evaluated in self._evaluation:
            if (share := similarity.overlap(text, evaluated)) >= _CONTAMINATED:
                return "contaminated", f"{share:.0%} of the evaluation task: {evaluated[:_SHOWN]}"
        if (proposal.environment, text) in self._accepted:
            return "duplicate", "it is proposed already"
        for other, known in self._alike[proposal.environment, similarity.values(proposal.instruction)]:
            cosine = float(vector @ known)
            if cosine >= self._cosine or similarity.same_words(text, other):
                return "duplicate", f"cosine {cosine:.2f} with: {other[:_SHOWN]}"
        allowed = allowed_infeasible(len(self._accepted) + 1, self._share)
        if not proposal.feasible and self._infeasible >= allowed:
            return "too_many_infeasible", f"{self._infeasible} of {len(self._accepted)} accepted already"
        return None

    def _remember(self, proposal: Proposal, vector: np.ndarray) -> None:
        text = normalise(proposal.instruction)
        self._accepted.add((proposal.environment, text))
        self._alike[proposal.environment, similarity.values(proposal.instruction)].append((text, vector))
        self._infeasible += not proposal.feasible


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of a book: a proposal, an outcome, or a guidebook that a proposer rewrote."""

    proposal: Proposal | None = None
    outcome: Outcome | None = None
    guidebook: str | None = None


class Pages:
    """The content of a book: proposals, their outcomes and the guidebook.

    A proposal's outcome before its trials may be followed by those of its trials; the last one counts.
    """

    def __init__(self) -> None:
        self.guidebook = ""
        self.groups: set[str] = set()  # in training, whose outcomes are in the book
        self._proposals: dict[str, Proposal] = {}
        self._outcomes: dict[str, Outcome] = {}

    @property
    def proposals(self) -> dict[str, Proposal]:
        """The proposals by id, in the order they were added."""
        return dict(self._proposals)

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The last outcome of each proposal, by its id."""
        return dict(self._outcomes)

    @property
    def accepted(self) -> list[Proposal]:
        """The proposals that have an outcome and are not refused."""
        return [p for id, p in self._proposals.items() if id in self._outcomes and not self._refused(id)]

    @property
    def counts(self) -> Counter[str]:
        """The number of outcomes by refusal, and of those "accepted"."""
        return Counter(outcome.refusal or "accepted" for outcome in self._outcomes.values())

    @property
    def tried(self) -> list[tuple[Proposal, Outcome]]:
        """The proposals whose rate of success is known, in order, without those that are not judgeable."""
        known = [(proposal, self._outcomes.get(id)) for id, proposal in self._proposals.items()]
        return [
            (proposal, outcome)
            for proposal, outcome in known
            if outcome and outcome.success is not None and outcome.refusal != "not_judgeable"
        ]

    def take(self, line: Line) -> None:
        if line.proposal is not None:
            self._proposals[line.proposal.id] = line.proposal
        if line.outcome is not None:
            self._outcomes[line.outcome.proposal] = line.outcome
            self.groups |= {line.outcome.group} - {""}
        if line.guidebook is not None:
            self.guidebook = line.guidebook

    def _refused(self, id: str) -> bool:
        return self._outcomes[id].refusal is not None


def read(path: Path) -> Pages:
    """Read a book, also while another process is writing it.

    Raises:
        UsageError: there is no such file.
        InfrastructureError: it cannot be read, or a line is damaged.
    """
    pages = Pages()
    try:
        *lines, _ = path.read_bytes().split(b"\n")  # text after the last newline is being written, or torn
    except FileNotFoundError:
        raise UsageError(f"there is no book at {path}: `guiagent propose --book {path}` writes one") from None
    except OSError as error:
        raise InfrastructureError(f"cannot read {path}: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        try:
            pages.take(msgspec.json.decode(line, type=Line))
        except DECODE_ERRORS as error:
            raise InfrastructureError(
                f"{path}: line {number} is damaged ({error}); remove that line to go on"
            ) from None
    return pages


class ProposalLog(Pages):
    """A book for its one writer: append-only, synced line by line, resumed after a kill.

    Raises:
        InfrastructureError: another process is writing, the disk fails, or a line is damaged.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._journal = Journal(path, Line)
        try:
            for line in self._journal:
                self.take(line)
        except InfrastructureError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._journal.close()

    def add(self, proposal: Proposal, outcome: Outcome) -> None:
        """Append a proposal and its first outcome in one line: both or neither.

        Raises:
            UsageError: the proposal has an outcome already.
        """
        if proposal.id in self._outcomes:
            raise UsageError(f"{self.path}: there is a proposal {proposal.id} already")
        self._append(Line(proposal, outcome))

    def conclude(self, outcome: Outcome) -> None:
        """Append a later outcome of a proposal, or the outcome of one that could not be read."""
        self._append(Line(outcome=outcome))

    def learn(self, guidebook: str) -> None:
        if guidebook != self.guidebook:
            self._append(Line(guidebook=guidebook))

    def _append(self, line: Line) -> None:
        self._journal.append(line)
        self.take(line)
