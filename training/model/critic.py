"""The critic: a small network that predicts an episode's outcome from the policy's own hidden states.

It reads the last layer's output before each turn's first sampled token. No gradient reaches the policy.
ST-PPO, DigiRL and WebRL use a second model instead (a RoBERTa, or another language model); ours costs almost
nothing beyond the forward pass that is made anyway, sees what the policy sees, and lags behind the policy
while its features change.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from training.checkpoints.states import optimizer_state, restore_optimizer

_WIDTH = 128
_HEADS = 2  # the smaller of two estimates is used, against overestimation (DigiRL)
_LEARNING_RATE = 3e-3
_PASSES = 5  # passes over a batch (DigiRL)
_OPTIMIZER = "optimizer."


class Critic(nn.Module):
    """Values of steps and of instructions, in [0, 1], and the AdamW that fits them.

    Fitted with cross-entropy to the outcome that followed: for outcomes of 0 and 1 this is DigiRL's
    classifier of "is the return above 0", for others its minimum is their mean.
    """

    def __init__(self, size: int, *, seed: int = 0, device: torch.device | None = None) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._steps = _heads(size, _HEADS)
            self._tasks = _heads(size, _HEADS)
        self.to(device)
        self._optimizer = torch.optim.AdamW(self.parameters(), lr=_LEARNING_RATE)

    @torch.no_grad()
    def values(self, hidden: Tensor) -> Tensor:
        """[S, size], a state for each step -> [S] float32: the chance of success before each step."""
        values: Tensor = self._steps(hidden.float()).sigmoid().amin(dim=-1)
        return values

    @torch.no_grad()
    def task_values(self, hidden: Tensor) -> Tensor:
        """[T, size], the state before the first step of T episodes -> [T]: the chance of success.

        Used as the value of the instruction, although it also sees the first screen.
        """
        values: Tensor = self._tasks(hidden.float()).sigmoid().amin(dim=-1)
        return values

    def update(self, hidden: Tensor, outcomes: Tensor, first: Tensor) -> float:
        """Fit both critics to [S, size] states; return the mean cross-entropy before the fit.

        `outcomes` [S] in [0, 1] are those of the states' episodes, `first` [S] marks each episode's first
        state. Without states nothing is done and 0 is returned. If other processes fit the same critic, all
        must pass the same states.
        """
        if not len(hidden):
            return 0.0
        hidden, outcomes = hidden.detach().float(), outcomes.float()
        losses: list[float] = []
        for _ in range(_PASSES):
            self._optimizer.zero_grad()
            loss = _cross_entropy(self._steps(hidden), outcomes)
            if first.any():
                loss = loss + _cross_entropy(self._tasks(hidden[first]), outcomes[first])
            loss.backward()
            self._optimizer.step()
            losses.append(float(loss.detach()))
        return losses[0]

    def state(self) -> dict[str, Tensor]:
        """Weights and optimiser state, for a checkpoint."""
        tensors, _ = optimizer_state(self._optimizer)
        return {**self.state_dict(), **{_OPTIMIZER + name: tensor for name, tensor in tensors.items()}}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Load what `state` returned."""
        tensors = {
            name.removeprefix(_OPTIMIZER): state[name] for name in state if name.startswith(_OPTIMIZER)
        }
        self.load_state_dict({name: state[name] for name in state if not name.startswith(_OPTIMIZER)})
        groups = self._optimizer.state_dict()["param_groups"]
        restore_optimizer(self._optimizer, tensors, {"state": {}, "param_groups": groups})


def with_end(values: Tensor) -> tuple[float, ...]:
    """The values before each step of one episode, and after the last step 0: the score is known then."""
    return (*values.tolist(), 0.0)


def _heads(size: int, heads: int) -> nn.Sequential:
    return nn.Sequential(nn.LayerNorm(size), nn.Linear(size, _WIDTH), nn.GELU(), nn.Linear(_WIDTH, heads))


def _cross_entropy(logits: Tensor, outcomes: Tensor) -> Tensor:
    """Mean over states, [S, heads] against [S]."""
    return binary_cross_entropy_with_logits(logits, outcomes[:, None].expand_as(logits))
