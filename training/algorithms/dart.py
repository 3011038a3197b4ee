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
- A success may be 100 policy versions old; there any age.
- How many rollouts a task gets and how long they may be is `rollout.dynamic`, which is DART's too.
"""

from functools import partial

from training.algorithms.algorithm import Algorithm, Clipped, Correction, Kl, Objective, RescueAllFail
from training.algorithms.credit import step_weighted
from training.reward import outcome

_RESCUE = RescueAllFail(
    capacity=8,
    keep_above=0.1,
    std_below=0.05,
    mean_below=0.2,
    max_age=100,
    slot="oldest",
    source="newest",
)

DART_PAPER = Algorithm(
    name="dart_paper",
    paper="2509.23866",
    reward=outcome,
    credit=partial(step_weighted, std="sample", eps=1e-6),
    objective=Objective(
        surrogate=Clipped(level="token", low=0.1, high=0.28, against="proximal"),
        aggregation="turn_mean_token_mean",
        correction=Correction(level="token", kind="truncate", cap=1.0),
        kl=Kl(form="k3", coef=0.1),
        step_mask=0.2,
    ),
    replay=_RESCUE,
    flat_groups="drop",
    signals=frozenset({"reference", "proximal"}),
)

DART_CODE = Algorithm(
    name="dart_code",
    paper="2509.23866",
    reward=outcome,
    credit=partial(step_weighted, std="sample", eps=1e-6),
    objective=Objective(
        surrogate=Clipped(level="turn", low=0.1, high=0.28, against="proximal"),
        aggregation="turn_mean_token_mean",
        correction=Correction(level="token", kind="truncate", cap=1.0),
        kl=Kl(form="k3", coef=0.1),
    ),
    replay=_RESCUE,
    flat_groups="drop",
    signals=frozenset({"reference", "proximal"}),
)
