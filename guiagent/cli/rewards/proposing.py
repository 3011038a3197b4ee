"""Implementation of `guiagent propose`: proposes tasks for a device, validates, tries and records them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from guiagent.cli.common.progress import StageLine
from guiagent.cli.common.terminal import terminal
from guiagent.cli.rewards.synthesizing import print_counts
from guiagent.cli.rewards.trying import Trials, Trying, open_trials
from guiagent.client import FarmClient
from guiagent.client.local_pool import private_pool
from guiagent.errors import InfrastructureError, UsageError
from guiagent.protocols import Device, Shell
from guiagent.seeds import DEMONSTRATIONS, EVALUATION, upwards
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Observation, ObserveSpec
from guiagent.wire import Grant
from rewards.judges.cases import Screen
from rewards.judges.config import ServerConfig
from rewards.proposers import evolution, similarity
from rewards.proposers.elements import ELEMENTS
from rewards.proposers.grammar import KINDS, GrammarProposer
from rewards.proposers.prompts import PRESETS
from rewards.proposers.types import Outcome, Proposal, ProposalContext
from rewards.proposers.validation import ProposalLog, Validator
from rewards.tasksets.book import begin

_SPEC = ObserveSpec(frame="png")
_SIZES = {"browser": (1024, 768), "phone": None, "desktop": None}  # None: the kind's own
_IN_VAIN = 5  # requests in a row without an acceptable proposal, after which to stop
_EVALUATION_SEEDS = EVALUATION[:20]
_MOST_OF_A_KIND = 50  # proposals of one grammar for one screen
_APPS_S = 15.0


class ProposeArgs(NamedTuple):
    """The arguments of `guiagent propose`."""

    preset: str
    book: Path
    device: str
    n: int
    url: str | None
    model: str
    start: str | None
    examples: Path | None
    demonstration: Path | None
    avoid: Path | None
    run: Path | None
    embed: str
    tried: Trying | None = None
    width: int | None = None
    height: int | None = None

    @property
    def environment(self) -> str:
        return self.start or self.device

    @property
    def grants(self) -> list[Grant]:
        return ["exec"] if self.device == "browser" else ["shell"]

    @property
    def devices(self) -> str:
        """The devices that this command needs, in `guiagent up`'s syntax; "" if it needs none."""
        count = (self.run is None) + (self.tried.devices if self.tried else 0)
        known = _SIZES[self.device] or (self.width, self.height)
        width, height = self.width or known[0], self.height or known[1]
        size = f"@{width}x{height}" if width and height else ""
        return f"{self.device}={count}{size}" if count else ""


class Suggested(NamedTuple):
    proposals: Sequence[Proposal]
    malformed: Sequence[Outcome] = ()
    guidebook: str = ""


def propose(args: ProposeArgs) -> None:
    """Propose until `args.n` are accepted or no more come, and print the counts of outcomes.

    Raises UsageError for impossible arguments, InfrastructureError if nothing was accepted.
    """
    _check(args)
    console = terminal(highlight=False)
    with ProposalLog(args.book) as book, StageLine(console, "1/1", "propose") as line:
        counts = asyncio.run(_work(args, book, line))
    print_counts(counts, console)
    console.print(f"book      {args.book}: {len(book.accepted)} accepted so far", soft_wrap=True)
    if args.preset == "seagent":
        console.print(f"phase     {evolution.phases_of(book.tried).phase} of the curriculum")
    if not counts["accepted"]:
        raise InfrastructureError(f"no proposal was accepted; {args.book} says why")


async def _work(args: ProposeArgs, book: ProposalLog, line: StageLine) -> Counter[str]:
    counts: Counter[str] = Counter()
    in_vain = 0
    async with AsyncExitStack() as stack:
        proposer = await stack.enter_async_context(_proposer(args))
        farm = await stack.enter_async_context(_farm(args))
        trials = await _trials(args, book, farm, stack)
        completer = _ContextCompleter(args, book)
        if trials is not None:
            for proposal in [p for p in book.accepted if not book.outcomes[p.id].trials]:
                line.update(f"an earlier proposal is tried: {proposal.instruction}")
                counts[f"{_named(await trials.conclude(proposal))}, of earlier"] += 1
        contexts = await stack.enter_async_context(_contexts(args, book, farm))
        validator = await _validator(args, book, stack)
        async for context in contexts:
            wanted = max(args.n - counts["accepted"], completer.least)
            suggested = await proposer.suggest(completer.complete(context), wanted)
            for proposal in suggested.proposals:
                if counts["accepted"] >= args.n:
                    break
                outcome = await validator.outcome(proposal)
                book.add(proposal, outcome)
                concluded: Outcome | None = outcome
                if trials is not None and outcome.refusal is None:
                    concluded = await trials.conclude(proposal)
                counts[_named(concluded)] += 1
            for outcome in suggested.malformed:
                book.conclude(outcome)
                counts["malformed"] += 1
            if suggested.guidebook:
                book.learn(suggested.guidebook)
            line.update(f"{counts['accepted']} of {args.n} accepted, {counts.total()} proposed")
            progress = any(p.id in {a.id for a in book.accepted} for p in suggested.proposals)
            in_vain = 0 if progress else in_vain + 1
            if counts["accepted"] >= args.n or in_vain >= _IN_VAIN:
                break
    return counts


def _named(outcome: Outcome | None) -> str:
    return "untried" if outcome is None else outcome.refusal or "accepted"


async def _trials(
    args: ProposeArgs, book: ProposalLog, farm: FarmClient | None, stack: AsyncExitStack
) -> Trials | None:
    if args.tried is None or farm is None:
        return None
    return await stack.enter_async_context(open_trials(args.tried, book, farm, args.device, args.grants))


def _check(args: ProposeArgs) -> None:
    """Raise UsageError for arguments that do not fit together."""
    if args.device not in _SIZES:
        raise UsageError(f"no device {args.device!r}; known: {', '.join(_SIZES)}")
    if args.preset == "grammar":
        if args.device != "browser" or not args.start:
            raise UsageError("the grammar reads the elements of a page: --device browser --start URL")
        return
    if args.preset not in PRESETS:
        raise UsageError(f"no preset {args.preset!r}; known: grammar, {', '.join(PRESETS)}")
    if not args.url:
        raise UsageError(f"the preset {args.preset} asks a model: --url and --model say which")
    if PRESETS[args.preset].shows == "exploration" and args.run is None:
        raise UsageError(f"the preset {args.preset} needs an exploration: --run FOLDER")
    if args.device == "browser" and PRESETS[args.preset].shows == "screen" and not args.start:
        raise UsageError("say which page to begin at: --start URL")


class _Grammar:
    """The proposer without a model: applies all kinds of the grammar to the elements of the page."""

    async def suggest(self, context: ProposalContext, n: int) -> Suggested:
        found = [p for kind in KINDS for p in await GrammarProposer(kind).propose(context, _MOST_OF_A_KIND)]
        # The hidden check counts elements as a page of a taskset does; here nothing could evaluate it.
        return Suggested([replace(proposal, check=None) for proposal in found])


class _Model:
    def __init__(self, args: ProposeArgs) -> None:
        try:
            from rewards.proposers.model import ModelProposer
        except ModuleNotFoundError as error:
            raise InfrastructureError(
                f"{error.name} is not installed: pip install 'guiagent[judge]'"
            ) from None
        self.proposer = ModelProposer(ServerConfig(url=args.url, model=args.model), args.preset)

    async def suggest(self, context: ProposalContext, n: int) -> Suggested:
        found = await self.proposer.suggest(context, n)
        return Suggested(found.proposals, found.malformed, found.guidebook)


@asynccontextmanager
async def _proposer(args: ProposeArgs) -> AsyncIterator[_Grammar | _Model]:
    if args.preset == "grammar":
        yield _Grammar()
        return
    model = _Model(args)
    try:
        yield model
    finally:
        await model.proposer.close()


async def _validator(args: ProposeArgs, book: ProposalLog, stack: AsyncExitStack) -> Validator:
    embed, cosine = similarity.hashed_ngrams, similarity.COSINE
    if args.embed:
        from rewards.proposers.embedding import MODEL_COSINE, ServerEmbedding

        server = ServerEmbedding(ServerConfig(url=args.url, model=args.embed))
        stack.push_async_callback(server.close)
        embed, cosine = server, MODEL_COSINE
    validator = Validator([*_lines(args.avoid), *_evaluation(args.device)], embed=embed, cosine=cosine)
    await validator.recall(book.accepted)
    return validator


def _evaluation(device: str) -> list[str]:
    """Return the instructions of the phone's evaluation templates; those of other suites come by --avoid."""
    if device != "phone":
        return []
    from rewards.tasksets.phone import UNSEEN_APP_TEMPLATES, UNSEEN_TEMPLATES, PhoneTasks

    names = (*UNSEEN_TEMPLATES, *UNSEEN_APP_TEMPLATES)
    return [PhoneTasks().task(name, seed).instruction for name in names for seed in _EVALUATION_SEEDS]


@asynccontextmanager
async def _farm(args: ProposeArgs) -> AsyncIterator[FarmClient | None]:
    """Start the devices that this command needs; None if it needs none."""
    if not args.devices:
        yield None
        return
    with private_pool(args.devices) as endpoint:
        async with FarmClient(endpoint.url, endpoint.token) as farm:
            yield farm


@asynccontextmanager
async def _contexts(
    args: ProposeArgs, book: ProposalLog, farm: FarmClient | None
) -> AsyncIterator[AsyncIterator[ProposalContext]]:
    """Open the contexts to propose from: one for each episode of a run, or without a run endlessly many.

    Without a run they are first screens of a leased device, by seeds that follow those in the book.
    """
    seen = [p.seed for p in book.proposals.values() if p.environment == args.environment]
    first = 1 + max(seen, default=-1)
    if args.run is not None:
        with TrajectoryStore(args.run / "trajectories", readonly=True) as store:
            yield _explored(args, store, first)
        return
    assert farm is not None, "without a run there are devices"
    async with farm.lease(args.device, grants=args.grants, label="guiagent propose") as device:
        yield _shown(args, device, first)


async def _shown(args: ProposeArgs, device: Device, first: int) -> AsyncIterator[ProposalContext]:
    spec = replace(_SPEC, probes={"elements": ELEMENTS}) if args.preset == "grammar" else _SPEC
    apps = await _apps(args, device)
    for seed in upwards(first, DEMONSTRATIONS):
        observation = await _begin(args, device, seed, spec)
        yield ProposalContext(args.environment, seed, observation, apps=apps)


async def _begin(args: ProposeArgs, device: Device, seed: int, spec: ObserveSpec) -> Observation:
    """Bring the device to its start. Raises UsageError if that start is impossible."""
    shown = await begin(device, args.environment, seed, spec)
    if shown.action_error:
        raise UsageError(f"{args.environment}: {shown.action_error}")
    return shown


async def _apps(args: ProposeArgs, device: Device) -> list[str]:
    commands = {
        "phone": ["pm", "list", "packages"],
        "desktop": ["/bin/sh", "-c", "ls /usr/share/applications | sed -n 's/[.]desktop$//p'"],
    }
    if args.device not in commands or not isinstance(device, Shell):
        return []
    listed = await device.exec(commands[args.device], _APPS_S)
    return [line.removeprefix("package:") for line in listed.stdout.splitlines() if line][:100]


async def _explored(args: ProposeArgs, store: TrajectoryStore, first: int) -> AsyncIterator[ProposalContext]:
    """Yield the context of each episode, its screens and actions, from the episode `first` on."""
    for seed, trajectory in enumerate(store):
        if seed < first or not trajectory.final_frame:
            continue
        steps = [(Screen(store.frame(s.frame)), s.policy.actions) for s in trajectory.steps]
        last = store.frame(trajectory.final_frame)
        size = trajectory.steps[-1] if trajectory.steps else None
        shown = Observation(size.width if size else 0, size.height if size else 0, frame=last)
        yield ProposalContext(args.environment, seed, shown, exploration=[*steps, (Screen(last), [])])


class _ContextCompleter:
    """Adds the contents of files and the trials of earlier proposals to a proposer's context."""

    def __init__(self, args: ProposeArgs, book: ProposalLog) -> None:
        self._args, self._book = args, book
        self._evolution = evolution.Evolution()
        self.least = evolution.LEAST_TASKS if args.preset == "seagent" else 1  # an exam of fewer says nothing

    def complete(self, context: ProposalContext) -> ProposalContext:
        args, book = self._args, self._book
        context = replace(
            context,
            examples=_lines(args.examples),
            demonstration="\n".join(_lines(args.demonstration)),
            guidebook=book.guidebook,
        )
        if args.preset == "seagent":
            return evolution.examine(evolution.phases_of(book.tried, book.guidebook), context)
        if args.preset == "webrl":
            self._evolution = evolution.take_in(self._evolution, book.tried)
            if self._evolution.seeds:
                self._evolution, context = evolution.evolve(self._evolution, context)
            elif not context.examples:
                raise UsageError(
                    "webrl varies tasks that a policy failed, and the book has none: --policy tries what is "
                    "in it, as training on it does, and --examples FILE names others"
                )
        return context


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    return [line.strip() for line in text.splitlines() if line.strip()]
