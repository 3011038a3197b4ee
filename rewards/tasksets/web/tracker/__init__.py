"""Tasks on the site `tracker`, a Roundup in which dana is logged in: issues, their keywords and notes."""

from rewards.tasksets.web.template import Template
from rewards.tasksets.web.tracker import issues, others
from rewards.tasksets.web.tracker.rows import TRACKER

TEMPLATES = tuple(
    Template(f"tracker-{name}", (TRACKER,), steps, make)
    for name, steps, make in (
        ("resolve", 8, issues.resolve),
        ("reopen", 8, issues.reopen),
        ("raise-priority", 8, issues.raise_priority),
        ("assign", 8, issues.assign),
        ("take-over", 7, issues.take_over),
        ("rename", 7, issues.rename),
        ("tag", 7, issues.tag),
        ("untag", 7, issues.untag),
        ("triage", 12, issues.triage),
        ("supersede", 12, issues.supersede),
        ("hand-over", 24, issues.hand_over),
        ("close-reported", 24, issues.close_reported),
        ("close-keyword", 24, issues.close_release),
        ("report", 8, others.report),
        ("report-assigned", 11, others.report_assigned),
        ("report-two", 14, others.report_two),
        ("comment", 7, others.comment),
        ("resolve-with-note", 9, others.resolve_with_note),
        ("my-details", 5, others.my_details),
        ("new-keyword", 5, others.new_keyword),
        ("ask-count", 8, others.ask_count),
        ("ask-reporter", 5, others.ask_reporter),
        ("ask-titles", 8, others.ask_titles),
        ("infeasible-issue", 5, others.no_such_issue),
        ("infeasible-person", 7, others.no_such_person),
    )
)
