"""Tasks on sites: real web applications with data of ours, checked on their own databases."""

from collections.abc import Sequence
from dataclasses import dataclass

from guiagent.errors import UsageError
from rewards.tasksets.web import across, data, forum, money, shop, tracker, wiki
from rewards.tasksets.web.task import WebTask
from rewards.tasksets.web.template import Template

TEMPLATES: dict[str, Template] = {
    one.name: one for part in (tracker, data, shop, money, wiki, forum, across) for one in part.TEMPLATES
}


@dataclass(frozen=True)
class WebTasks:
    """The taskset "web". Its oracle acts through the interface, without probes."""

    oracle: bool = False

    def __post_init__(self) -> None:
        if self.oracle:
            raise UsageError("web tasks have no oracle policy; `guiagent tasks audit web` runs their oracles")

    @property
    def names(self) -> Sequence[str]:
        return tuple(TEMPLATES)

    def task(self, name: str, seed: int) -> WebTask:
        """A task for one episode: the template `name` with what `seed` draws from its sites' rows."""
        if name not in TEMPLATES:
            raise UsageError(f"no web task {name!r}; known: {', '.join(TEMPLATES)}"[:500])
        return WebTask(TEMPLATES[name], seed)
