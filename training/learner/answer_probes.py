"""Answer probes: the right answer in place of each turn, to score its probability (IGPO's signal)."""

from collections.abc import Sequence

from training.inputs.contexts import Context
from training.inputs.packing import Branch


def probes(branches: Sequence[Branch], answer: Sequence[int], image_token: int) -> list[Branch]:
    """Return a trajectory's branches and one more per turn, with `answer` in place of the sampled tokens.

    Only the tokens of the answers count as sampled.
    """
    silent = [branch._replace(context=_silent(branch.context)) for branch in branches]
    asked: list[Branch] = []
    said: set[int] = set()  # turns; one of several calls is asked at its first
    for parent, (context, _, shared) in enumerate(branches):
        for at in range(shared, len(context.ids)):
            turn = context.turns[at]
            if context.sampled[at] and turn not in said:
                said.add(turn)
                asked.append(Branch(_instead(context, at, answer, image_token), parent, at))
    return [*silent, *asked]


def _silent(context: Context) -> Context:
    return context._replace(sampled=[False] * len(context.ids))


def _instead(context: Context, at: int, answer: Sequence[int], image_token: int) -> Context:
    ids = context.ids[:at]
    pictures = sum(
        token == image_token and (index == 0 or ids[index - 1] != image_token)
        for index, token in enumerate(ids)
    )
    n = len(answer)
    return Context(
        [*ids, *answer],
        [False] * at + [True] * n,
        [0.0] * (at + n),
        [*context.turns[:at], *[context.turns[at]] * n],
        context.frames[:pictures],
    )
