"""How two results of one suite differ, in sentences: the change of each half, its interval and its test."""

from eval.report.page import in_points
from eval.results import TRAINED, UNSEEN, Comparison
from eval.stats import mcnemar_exact, newcombe


def changes(comparison: Comparison) -> list[str]:
    """A sentence for each half of the suite that both results have episodes of."""
    before, after = comparison.before, comparison.after
    lines = []
    for trained, name in ((True, TRAINED), (False, UNSEEN)):
        if before is None:
            break
        a, b = before.pooled(trained).scheduled, after.pooled(trained).scheduled
        if not a.n or not b.n:
            continue
        interval = newcombe(a, b)
        gained, lost = comparison.paired(trained)
        lines.append(
            f"{name}: {in_points(b.rate - a.rate)} points ({in_points(interval.low)} to "
            f"{in_points(interval.high)}), {gained} seeds gained and {lost} lost, "
            f"p = {mcnemar_exact(gained, lost):.3f}"
        )
    return lines
