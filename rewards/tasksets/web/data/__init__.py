"""Tasks on the site `data`, a Datasette over the bicycle counters of a city, with forms that write."""

from rewards.tasksets.web.data import forms, questions
from rewards.tasksets.web.data.rows import COUNTERS
from rewards.tasksets.web.template import Template

TEMPLATES = tuple(
    Template(f"data-{name}", (COUNTERS,), steps, make)
    for name, steps, make in (
        ("close", 8, forms.close),
        ("close-all", 16, forms.close_all),
        ("reopen", 8, forms.reopen),
        ("assign", 7, forms.assign),
        ("hand-over", 30, forms.hand_over),
        ("report", 10, forms.report),
        ("report-district", 24, forms.report_district),
        ("discard", 8, forms.discard),
        ("correct", 10, forms.correct),
        ("add-counter", 9, forms.add_counter),
        ("rename", 9, forms.rename),
        ("ask-count", 7, questions.ask_count),
        ("ask-year", 10, questions.ask_year),
        ("ask-busiest", 10, questions.ask_busiest),
        ("ask-above", 8, questions.ask_above),
        ("ask-open", 8, questions.ask_open),
        ("ask-places", 10, questions.ask_places),
        ("ask-oldest", 5, questions.ask_oldest),
        ("infeasible-counter", 6, forms.no_such_counter),
        ("infeasible-form", 6, forms.no_such_form),
    )
)
