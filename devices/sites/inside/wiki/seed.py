"""Fill the site `wiki`: the pages of an office in several versions, and those who write them."""

import datetime
import os
import sys
from random import Random

os.environ.update(DJANGO_SETTINGS_MODULE="settings", WIKI_DATA=sys.argv[1])

import django  # type: ignore[import-not-found]

django.setup()

from django.apps import apps  # type: ignore[import-not-found]  # noqa: E402
from django.conf import settings  # type: ignore[import-not-found]  # noqa: E402
from django.contrib.auth.hashers import make_password  # type: ignore[import-not-found]  # noqa: E402
from django.contrib.auth.models import Permission, User  # type: ignore[import-not-found]  # noqa: E402
from django.core.management import call_command  # type: ignore[import-not-found]  # noqa: E402
from django.db import connection  # type: ignore[import-not-found]  # noqa: E402
from pages import DELETED, LOCKED, PAGES  # type: ignore[import-not-found]  # noqa: E402
from wiki.models import Article, ArticleRevision, URLPath  # type: ignore[import-not-found]  # noqa: E402

PASSWORD = "timetable"
USERS = ("dana", "emil", "farah", "goran", "hanna")
_BEGAN = datetime.datetime(2026, 1, 5, 9, tzinfo=datetime.UTC)


def main() -> None:
    random = Random(20260306)
    # Tables as the models describe them, without the history of how they came to be so.
    settings.MIGRATION_MODULES = {app.label: None for app in apps.get_app_configs()}
    call_command("migrate", run_syncdb=True, verbosity=0)
    people = [
        User.objects.create(
            username=name, email=f"{name}@wiki.test",
            password=make_password(PASSWORD, salt=name, hasher="md5"),
        )
        for name in USERS
    ]  # fmt: skip
    # dana looks after the wiki: she may lock pages, and say whose they are.
    people[0].user_permissions.set(Permission.objects.filter(codename__in=("moderate", "assign")))
    for path, (title, versions) in PAGES.items():
        _page(random, path, title, versions, people)
    _date()


def _page(random: Random, path: str, title: str, versions: list[str], people: list[User]) -> None:
    parent, _, slug = path.rstrip("/").rpartition("/")
    first, *later = versions
    owner = random.choice(people)
    if path:
        made = URLPath.create_urlpath(
            URLPath.get_by_path(parent), slug, title=title, content=first, user=owner,
            article_kwargs={"owner": owner},
        )  # fmt: skip
    else:
        made = URLPath.create_root(title=title, content=first, user=owner)
    for text in later:
        _revise(made.article, random.choice(people), content=text)
    if path in DELETED:
        _revise(made.article, people[0], deleted=True)
    if path in LOCKED:
        _revise(made.article, people[0], locked=True)


def _revise(article: Article, user: User, **changed: object) -> None:
    revision = ArticleRevision(
        title=article.current_revision.title, content=article.current_revision.content, user=user
    )
    revision.inherit_predecessor(article)
    for name, value in changed.items():
        setattr(revision, name, value)
    article.add_revision(revision)


def _date() -> None:
    """Give every row fixed times: versions a day each, everything else the first day."""
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            for column in connection.introspection.get_table_description(cursor, table):
                if column.name in ("created", "modified", "date_joined", "last_login"):
                    cursor.execute(
                        f"UPDATE {table} SET {column.name} = %s WHERE {column.name} IS NOT NULL",
                        [f"{_BEGAN:%Y-%m-%d %H:%M:%S}"],
                    )
    for revision in ArticleRevision.objects.order_by("id"):
        day = _BEGAN + datetime.timedelta(days=revision.id)
        ArticleRevision.objects.filter(pk=revision.pk).update(created=day, modified=day)


if __name__ == "__main__":
    main()
