"""Tasks on the site `wiki`, a django-wiki with the pages of an office."""

from rewards.tasksets.web.template import Template
from rewards.tasksets.web.wiki import pages
from rewards.tasksets.web.wiki.rows import WIKI

TEMPLATES = tuple(
    Template(f"wiki-{name}", (WIKI,), steps, make)
    for name, steps, make in (
        ("line", 7, pages.line),
        ("telephone", 7, pages.telephone),
        ("retitle", 5, pages.retitle),
        ("minutes", 9, pages.minutes),
        ("delete", 5, pages.delete),
        ("restore", 3, pages.restore),
        ("move", 7, pages.move),
        ("revert", 6, pages.revert),
        ("lock", 5, pages.lock),
        ("owner", 6, pages.owner),
        ("ask-district", 6, pages.ask_district),
        ("ask-history", 5, pages.ask_history),
        ("infeasible-crew", 5, pages.no_such_crew),
    )
)
