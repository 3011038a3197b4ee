"""ZeroGUI's objective (Yang et al., arXiv 2505.23762, and its code of May 2025), without its KL term.

What it is:

- Reward: the judge's verdict, 0 or 1, and nothing for format. An unknown verdict is masked.
- Advantage: `A = (r - mean) / (std + 1e-8)` over the valid rollouts of a task, with the sample deviation.
- Dynamic sampling, as in DAPO (arXiv 2503.14476): a group whose rewards are all equal is dropped and counted,
  and the batch is filled with others.
- Loss: PPO per token with clip 0.2 on both sides, the mean over each sample's tokens, then over samples.

What we do otherwise, and why:

- No KL to a reference model: ZeroGUI adds `0.5 d^2` with a cap.
- A sample is a whole trajectory; ZeroGUI's is a step with its last five screenshots.
- A group is dropped by its valid rewards. ZeroGUI counts invalid ones as 0, and keeps a group of successes
  and one crash.
- As in `training.algorithms.legacy.arpo`, the ratio's denominator is the log-probability stored at sampling.
"""

from functools import partial

from training.advantages import group_advantages
from training.algorithms.legacy.algorithm import Algorithm, ClippedLoss
from training.reward import outcome

ZEROGUI = Algorithm(
    name="zerogui",
    rescue=None,
    dynamic_sampling=True,
    reward=outcome,
    advantage=partial(group_advantages, std="sample", eps=1e-8),
    loss=ClippedLoss(clip_low=0.2, clip_high=0.2, dual_clip=None, aggregation="traj_mean_token_mean"),
)
