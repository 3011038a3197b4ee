"""DART (Li et al., arXiv 2509.23866): its paper's objective and that of its released code, which differ.

What it is:

- Both: a trainer decoupled from rollouts. The ratio is to the policy at the start of the step, its mismatch
  with the policy that sampled is corrected by a truncated weight `min(proximal / behaviour, 1)` per token.
  Clip 0.1 below and 0.28 above, KL 0.1 (k3). Advantages are normalised over the group's *steps*: a long
  trajectory counts more often. Groups that all succeed are left out; one that all fails has its oldest
  rollout replaced by the newest success of its task, or is left out where there is none. A step is a sample:
  the mean over its tokens, then over steps.
- `dart_paper`: ratios per token; steps whose mean token entropy is below the group's 20 % quantile are left
  out.
- `dart_code`: one ratio per step, the geometric mean over its tokens (GSPO's, on samples that are steps); no
  steps are left out.

What we do otherwise, and why:

- The paper names the truncation's bound C and the clip without values; they are the code's.
- The code pads batches with random duplicates of steps before it takes statistics. Ours are never padded.
- It discards failures shorter than four steps, which favours whatever ends early. We keep them.
- It counts a token without behaviour log-probability as weight 1; so do we, and count it.
- Entropies are those of the policy at the start of the step, which is computed anyway. A step that is left
  out counts in the mean's denominator, as in the paper's expectation.
- A task keeps its 8 newest successes, and one may be 100 policy versions old; there all are kept, of any age.
- One optimiser step a batch, unless `update.minibatches` says otherwise: then every ratio is 1 and nothing is
  clipped. The code takes a step every 48 samples.
- How many rollouts a task gets and how long they may be is `rollout.dynamic`, DART's too: up to a success
  rate p of 0.6 all of them, then int(9 / p - 7); as many steps as the task's longest success, 10 at least
  (the paper's floor) and `rollout.max_steps` at most (its 50). There p is the mean over a task's latest
  trajectories; here it is the curriculum's exponential moving average, in which the newest outcome weighs
  0.1, and the longest is that of the last 20 successes (`rewards.curriculum`).
"""

from dataclasses import replace
from functools import partial

from training.algorithms.algorithm import Algorithm, Clipped, Correction, Kl, Objective, RescueAllFail
from training.algorithms.credit import step_weighted
from training.algorithms.reward import earned

_NOTHING = 1e-6  # a group fails as a whole if no member has a score above 0

DART_PAPER = Algorithm(
    name="dart_paper",
    paper="2509.23866",
    reward=earned,
    credit=partial(step_weighted, std="sample", eps=1e-6),
    objective=Objective(
        surrogate=Clipped(level="token", low=0.1, high=0.28, against="proximal"),
        aggregation="turn_mean_token_mean",
        correction=Correction(level="token", kind="truncate", cap=1.0),
        kl=Kl(form="k3", coef=0.1),
        step_mask=0.2,
    ),
    replay=RescueAllFail(
        capacity=8,
        keep_above=0.0,
        std_below=_NOTHING,
        mean_below=_NOTHING,
        max_age=100,
        slot="oldest",
        source="newest",
    ),
    flat_groups="drop",
    signals=frozenset({"reference", "proximal"}),
)

DART_CODE = replace(
    DART_PAPER,
    name="dart_code",
    objective=replace(
        DART_PAPER.objective,
        surrogate=Clipped(level="turn", low=0.1, high=0.28, against="proximal"),
        step_mask=None,
    ),
)
