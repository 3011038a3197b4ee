"""Tasks on the site `forum`, a Spirit in which a town's cyclists write."""

from rewards.tasksets.web.forum import members, topics
from rewards.tasksets.web.forum.rows import FORUM
from rewards.tasksets.web.template import Template

TEMPLATES = tuple(
    Template(f"forum-{name}", (FORUM,), steps, make)
    for name, steps, make in (
        ("reply", 6, topics.reply),
        ("start", 9, topics.start),
        ("edit", 6, topics.edit),
        ("retitle", 6, topics.retitle),
        ("private", 10, topics.private),
        ("invite", 6, topics.invite),
        ("close", 5, topics.close),
        ("reopen", 8, topics.reopen),
        ("pin", 5, topics.pin),
        ("change-pin", 9, topics.change_pin),
        ("move", 7, topics.move),
        ("split", 10, topics.split),
        ("spam", 5, topics.spam),
        ("like", 5, members.like),
        ("report", 8, members.report),
        ("settle", 7, members.settle),
        ("vote", 5, members.vote),
        ("follow", 5, members.follow),
        ("unfollow", 5, members.unfollow),
        ("profile", 9, members.profile),
        ("notices", 8, members.notices),
        ("promote", 8, members.promote),
        ("ask-answers", 5, members.ask_answers),
        ("ask-poll", 5, members.ask_poll),
        ("ask-search", 6, members.ask_search),
        ("infeasible-topic", 6, members.no_such_topic),
        ("infeasible-poll", 5, members.closed_poll),
    )
)
