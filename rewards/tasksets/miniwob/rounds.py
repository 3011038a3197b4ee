"""Pages of MiniWoB++ played several rounds in one episode, where only the end of the last one pays.

`circle-center-x3` are three problems of circle-center, one after the other: 6 actions, and a score of 1 if
all three are solved. So the same two clicks can be asked for once or eight times in a row, which is a ladder
for what credits single steps. The instruction is the same in all rounds: of pages whose instruction has a
part of the problem, the next problem is drawn until it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from guiagent.errors import UsageError
from rewards.tasksets.miniwob.pages import TRAIN, UNSEEN
from rewards.tasksets.miniwob.reader import probes_of
from rewards.tasksets.miniwob.task import SolvedTask

# One puts its dialog away after it was won, and the next one with it; two have one problem an instruction.
_ALONE = {"click-dialog", "click-tab", "grid-coordinate"}
PAGES = {page: clicks for page, clicks in {**TRAIN, **UNSEEN}.items() if page not in _ALONE}
ROUNDS = (1, 2, 3, 5, 8)
_SCRIPT = files(__package__).joinpath("rounds.js").read_text()

PAGE_OF = {f"{page}-x{rounds}": page for page in PAGES for rounds in ROUNDS}
ROUNDS_OF = {f"{page}-x{rounds}": rounds for page in PAGES for rounds in ROUNDS}
ACTIONS_OF = {name: rounds * PAGES[PAGE_OF[name]] for name, rounds in ROUNDS_OF.items()}
TRAIN_TASKS = tuple(  # the longest are unseen
    name for name, rounds in ROUNDS_OF.items() if rounds < ROUNDS[-1] and PAGE_OF[name] in TRAIN
)


@dataclass(frozen=True)
class MiniWobRounds:
    """The taskset "miniwob-rounds": names are PAGE-xROUNDS. `oracle` is as for `MiniWob`."""

    oracle: bool = False

    @property
    def names(self) -> Sequence[str]:
        return tuple(PAGE_OF)

    def task(self, name: str, seed: int) -> SolvedTask:
        """The task `name` with `seed`; at most twice the actions of its shortest solution are allowed."""
        if name not in PAGE_OF:
            raise UsageError(f"no task {name!r} of rounds; known: {', '.join(self.names)}"[:900])
        page, rounds = PAGE_OF[name], ROUNDS_OF[name]
        return SolvedTask(
            name,
            page,
            seed,
            2 * ACTIONS_OF[name],
            probes_of(page, self.oracle),
            f"{_SCRIPT}({rounds});",
            rounds,
        )
