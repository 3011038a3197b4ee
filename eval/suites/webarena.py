"""Suites of WebArena's task files on the user's sites: `webarena:PATH` has every task below that path."""

from eval.suites.suite import Suite
from rewards.tasksets.webarena import PREFIX, named
from rewards.tasksets.webarena.sites import rules, without_password

_ATTEMPTS = 50  # at most, per task: seeds change nothing, since the tasks have no parameters


def webarena_suite(name: str) -> Suite:
    """The suite `webarena:PATH[,SITE=ADDRESS...][,judge=FILE]`, of the name `webarena:PATH` on any sites.

    Its digest covers the files' content. Raises UsageError for a bad path, file or address.
    """
    tasks = named(name)
    addresses = {site: without_password(url) for site, url in tasks.addresses.items()}
    judge = getattr(tasks.same_meaning, "name", None)
    return Suite(
        name=f"{PREFIX}{tasks.path}",
        taskset=name,
        train_tasks=(),
        unseen_tasks=tuple(tasks.names),
        episodes=_ATTEMPTS,
        device="browser",
        screen=(1280, 720),  # as the benchmark has it; on smaller screens there are no tabs
        egress=("public", *rules(tasks.addresses.values())),
        oracle=False,
        baselines=("null", "random", "random-element", "done", "fail"),  # some tasks cannot be done
        content=tasks.digest,
        addresses=addresses | ({"judge": without_password(judge)} if judge else {}),
        groups={"site": {id: "+".join(sorted(file.sites)) or "none" for id, file in tasks.files.items()}},
    )
