"""JavaScript that reads a page: what can be touched, and the actions that are left to solve it."""

from importlib.resources import files

from rewards.tasksets.miniwob.pages import CLICKS


def _script(name: str) -> str:
    return files(__package__).joinpath(name).read_text().strip()


READER = _script("clicks.js")  # a function of a page's name; all its actions are points to click
_FAMILIES = ",\n".join(_script(f"{name}.js") for name in ("fields", "choices", "places", "drags", "games"))
_STEPS = f"(page => ({_script('steps.js')})({_script('hands.js')}, [{_FAMILIES}], page))"
_CLICKS = "(points => points.map(([x, y]) => ({type: 'click', x, y})))"


# null except on a page of the package (no other site has this protocol) that the set-up has marked.
STATE = """
location.protocol === 'file:' && 'seed' in core
  ? [WOB_TASK_READY, WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL, WOB_REWARD_REASON] : null
"""


def probes_of(page: str, oracle: bool) -> dict[str, str]:
    """What is asked of a page with every observation; the `oracle` asks what solves it, too."""
    asked = {"state": STATE}
    if oracle:
        asked |= {"oracle": f"{reading(page)}.goal", "candidates": f"{reading(page)}.candidates"}
        asked["labels"] = f"{reading(page)}.labels"
    return asked


def reading(page: str) -> str:
    """JavaScript of an object: `goal` has the actions that are left, `candidates` clicks, `labels` theirs.

    `page` is a name of `rewards.tasksets.miniwob.pages`.
    """
    reader, goal = (READER, f"{_CLICKS}(r.goal)") if page in CLICKS else (_STEPS, "r.goal")
    return f"(r => ({{...r, goal: {goal}, candidates: {_CLICKS}(r.candidates)}}))(({reader})('{page}'))"
