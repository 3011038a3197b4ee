"""Tasks of a suite or taskset as Gymnasium environments: `gymnasium.make("eval.gym:guiagent/Task-v0", ...)`.

Importing this registers them; what they need is imported when the first is made.
"""

import gymnasium

gymnasium.register(
    id="guiagent/Task-v0",
    entry_point="eval.gym.env:TaskEnv",
    vector_entry_point="eval.gym.env:TaskVectorEnv",
    order_enforce=True,
)
