"""Fill the site `forum`: what a town's cyclists write, vote, like and report, some of it in private."""

import datetime
import os
import sys
from random import Random

os.environ.update(DJANGO_SETTINGS_MODULE="settings", FORUM_DATA=sys.argv[1])

import django  # type: ignore[import-not-found]

django.setup()

from django.apps import apps  # type: ignore[import-not-found]  # noqa: E402
from django.conf import settings  # type: ignore[import-not-found]  # noqa: E402
from django.contrib.auth.hashers import make_password  # type: ignore[import-not-found]  # noqa: E402
from django.contrib.auth.models import User  # type: ignore[import-not-found]  # noqa: E402
from django.core.management import call_command  # type: ignore[import-not-found]  # noqa: E402
from django.db import connection  # type: ignore[import-not-found]  # noqa: E402
from djconfig.models import Config  # type: ignore[import-not-found]  # noqa: E402
from spirit.category.models import Category  # type: ignore[import-not-found]  # noqa: E402
from spirit.comment.flag.models import CommentFlag, Flag  # type: ignore[import-not-found]  # noqa: E402
from spirit.comment.forms import CommentForm  # type: ignore[import-not-found]  # noqa: E402
from spirit.comment.like.models import CommentLike  # type: ignore[import-not-found]  # noqa: E402
from spirit.comment.models import Comment  # type: ignore[import-not-found]  # noqa: E402
from spirit.comment.poll.models import (  # type: ignore[import-not-found]  # noqa: E402
    CommentPoll,
    CommentPollChoice,
    CommentPollVote,
)
from spirit.topic.models import Topic  # type: ignore[import-not-found]  # noqa: E402
from spirit.topic.notification.models import (  # type: ignore[import-not-found]  # noqa: E402
    TopicNotification,
)
from spirit.topic.private.models import TopicPrivate  # type: ignore[import-not-found]  # noqa: E402
from topics import (  # type: ignore[import-not-found]  # noqa: E402
    BOARDS,
    CLOSED,
    CLOSED_POLLS,
    PINNED,
    PRIVATE,
    REPORTS,
    TOPICS,
    VOTES,
    WATCHED,
)

PASSWORD = "timetable"
USERS = ("dana", "emil", "farah", "goran", "hanna", "tilda")
_BEGAN = datetime.datetime(2026, 1, 5, 9, tzinfo=datetime.UTC)
_BETWEEN = datetime.timedelta(hours=17)  # two posts; all are of before March


def main() -> None:
    random = Random(20260307)
    # Tables as the models describe them, without the history of how they came to be so.
    settings.MIGRATION_MODULES = {app.label: None for app in apps.get_app_configs()}
    call_command("migrate", run_syncdb=True, verbosity=0)
    Config.objects.create(key="site_name", value="Cycle forum")
    people = {name: _person(name) for name in USERS}
    private = Category.objects.create(title="Private", is_private=True)  # the first: Spirit knows it by that
    boards = {title: Category.objects.create(title=title, description=told) for title, told in BOARDS.items()}
    for board, title, posts in TOPICS:
        _topic(boards[board], title, posts, people)
    for title, inside, posts in PRIVATE:
        topic = _topic(private, title, posts, people)
        for name in inside:
            TopicPrivate.objects.create(topic=topic, user=people[name])
    Topic.objects.filter(title__in=CLOSED).update(is_closed=True)
    Topic.objects.filter(title__in=PINNED).update(is_globally_pinned=True)
    _votes(people)
    _likes(random, people)
    _reports(people)
    for title in WATCHED:
        TopicNotification.objects.filter(topic__title=title, user=people["dana"]).delete()
        first = Comment.objects.filter(topic__title=title).order_by("pk").first()
        TopicNotification.create_maybe(user=people["dana"], comment=first)
    _date()
    call_command("rebuild_index", interactive=False, verbosity=0)


def _person(name: str) -> User:
    user = User.objects.create(
        username=name, email=f"{name}@forum.test", password=make_password(PASSWORD, salt=name, hasher="md5")
    )
    user.st.is_verified = True
    user.st.is_administrator = name == "dana"  # she looks after the forum
    user.st.save()
    return user


def _topic(board: Category, title: str, posts: tuple[str, ...], people: dict[str, User]) -> Topic:
    told = [post.partition(": ")[::2] for post in posts]
    topic = Topic.objects.create(category=board, title=title, user=people[told[0][0]])
    for name, text in told:
        form = CommentForm(user=people[name], topic=topic, data={"comment": text})
        if not form.is_valid():
            sys.exit(f"{title}: {form.errors}")
        comment = form.save()
        TopicNotification.create_maybe(user=people[name], comment=comment, action=TopicNotification.UNDEFINED)
        topic.increase_comment_count()
    return topic


def _votes(people: dict[str, User]) -> None:
    for name, votes in VOTES.items():
        for who, number in votes.items():
            choice = CommentPollChoice.objects.get(poll__name=name, number=number)
            CommentPollVote.objects.create(voter=people[who], choice=choice)
            choice.vote_count += 1
            choice.save()


def _likes(random: Random, people: dict[str, User]) -> None:
    """Let everybody but dana like some posts of others."""
    for comment in Comment.objects.order_by("pk"):
        some = random.sample(USERS, random.randint(0, 3))
        for name in some:
            if name not in (comment.user.username, "dana"):
                CommentLike.objects.create(user=people[name], comment=comment)
                comment.increase_likes_count()


def _reports(people: dict[str, User]) -> None:
    for begins, (who, reason, body) in REPORTS.items():
        comment = Comment.objects.get(comment__startswith=begins)
        CommentFlag.objects.create(comment=comment)
        Flag.objects.create(user=people[who], comment=comment, reason=reason, body=body)


def _date() -> None:
    """Give every row fixed times: posts one after the other, everything else the first day."""
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            for column in connection.introspection.get_table_description(cursor, table):
                if column.name in ("date", "reindex_at", "last_seen", "last_login", "date_joined",
                                   "created_at", "last_active"):  # fmt: skip
                    cursor.execute(
                        f"UPDATE {table} SET {column.name} = %s WHERE {column.name} IS NOT NULL",
                        [f"{_BEGAN:%Y-%m-%d %H:%M:%S}"],
                    )
    for comment in Comment.objects.order_by("pk"):
        time = _BEGAN + _BETWEEN * comment.pk
        Comment.objects.filter(pk=comment.pk).update(date=time)
        Topic.objects.filter(pk=comment.topic_id).update(last_active=time)
    CommentPoll.objects.filter(name__in=CLOSED_POLLS).update(close_at=_BEGAN)


if __name__ == "__main__":
    main()
