"""A suite as a taskset of verifiers, with the harness that plays it, under the name of this file:

PYTHONPATH=examples/doors vf-eval verifiers_suite --env.taskset.suite miniwob-demo --model NAME \\
    --client.base-url http://HOST:PORT/v1 --env.agent.runtime.type subprocess --no-push
"""

from eval.doors.verifiers import SuiteHarness, SuiteTaskset

__all__ = ["SuiteHarness", "SuiteTaskset"]  # by these names its command finds them
