"""Find the steps, getters and metrics that a task needs and that are not implemented."""

from rewards.checks import getters, metrics
from rewards.checks.evaluator import INFEASIBLE
from rewards.tasksets.osworld import setup
from rewards.tasksets.osworld.schema import TaskFile


def lacking(file: TaskFile) -> list[str]:
    """List the missing parts, such as "metric compare_epub"; empty if the task can be run."""
    kinds = {step.kind: setup.unsupported(step) for step in (*file.config, *file.postconfig)}
    missing = ["a guest with Windows"] if file.windows else []
    missing += [f"step {kind} ({why})" for kind, why in sorted(kinds.items()) if why]
    for name in sorted({source.type for source in file.sources} - set(getters.GETTERS)):
        why = getters.UNSUPPORTED.get(name, "unknown")
        missing.append(f"getter {name} ({why})")
    functions = {check.func for check in file.checks} - {INFEASIBLE}
    return missing + [f"metric {name}" for name in sorted(functions - set(metrics.METRICS))]
