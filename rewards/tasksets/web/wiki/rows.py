"""What the site `wiki` (django-wiki) keeps: pages as they are now, their seeded versions, and writers.

A page's text is compared without empty lines and white space at its ends, which the editor does not show.
"""

from rewards.tasksets.web.store import Database, Entry, Table, origin

ME = "dana"
_NEW = "'2026-03-05 09:00:00'"
# Awaited: the next navigation would cancel a form that is still being sent. Without a form (the site does not
# answer yet) nobody is logged in, which set-up finds and reports as a fault to try again after.
_ENTER = f"""
const form = document.querySelector('form:has([name=password])');
if (!form) return;
form.elements.username.value = '{ME}';
form.elements.password.value = 'timetable';
return fetch(location.href, {{method: 'POST', body: new FormData(form)}}).then(() => {{}});
"""
_PLACES = (
    "WITH RECURSIVE place(id, article, path) AS (SELECT id, article_id, '' FROM wiki_urlpath "
    "WHERE parent_id IS NULL UNION ALL SELECT u.id, u.article_id, place.path || u.slug || '/' "
    "FROM wiki_urlpath u JOIN place ON u.parent_id = place.id) "
)


def _text(column: str) -> str:
    """The column without empty lines, and white space at its ends."""
    ends = "char(10) || ' '"
    plain = f"trim(replace({column}, char(13), ''), {ends})"
    return f"replace(replace({plain}, char(10, 10, 10), char(10)), char(10, 10), char(10))"


def _revised(column: str) -> list[str]:
    """The statements that make a version of a page with another value of this column the current one."""
    kept = {"deleted": "coalesce(r.deleted, 0)", "locked": "coalesce(r.locked, 0)",
            "content": "coalesce(r.content, '')", "title": "coalesce(r.title, '')"}  # fmt: skip
    values = ", ".join({**kept, column: ":value"}.values())
    return [
        "INSERT INTO wiki_articlerevision (revision_number, user_message, automatic_log, modified, created, "
        f"previous_revision_id, article_id, {', '.join(kept)}) SELECT coalesce(r.revision_number, 0) + 1, "
        f"'', '', {_NEW}, {_NEW}, r.id, a.id, {values} FROM wiki_article a LEFT JOIN wiki_articlerevision r "
        "ON r.id = a.current_revision_id WHERE a.id = :id",
        "UPDATE wiki_article SET current_revision_id = (SELECT max(id) FROM wiki_articlerevision "
        "WHERE article_id = :id) WHERE id = :id",
    ]


_PAGE = Table(
    f"{_PLACES}SELECT a.id AS id, r.title AS title, p.path AS path, {_text('r.content')} AS text, "
    "r.deleted AS deleted, r.locked AS locked, u.username AS owner, g.name AS owners, "
    "a.group_read AS group_read, a.group_write AS group_write, a.other_read AS other_read, "
    "a.other_write AS other_write FROM wiki_article a "
    "LEFT JOIN wiki_articlerevision r ON r.id = a.current_revision_id LEFT JOIN place p ON p.article = a.id "
    "LEFT JOIN auth_user u ON u.id = a.owner_id LEFT JOIN auth_group g ON g.id = a.group_id "
    "ORDER BY p.path = '', a.id",
    {
        "title": _revised("title"),
        "text": _revised("content"),
        "deleted": _revised("deleted"),
        "locked": _revised("locked"),
        "owner": ["UPDATE wiki_article SET owner_id = (SELECT id FROM auth_user WHERE username = :value) "
                  "WHERE id = :id"],
        "path": [
            "INSERT INTO wiki_urlpath (slug, lft, rght, tree_id, level, article_id, site_id) "
            "SELECT 'new', 0, 0, 0, 1, :id, 1 WHERE NOT EXISTS "
            "(SELECT 1 FROM wiki_urlpath WHERE article_id = :id)",
            "UPDATE wiki_urlpath SET slug = 'from-' || id WHERE article_id = :id",  # where the path is taken
            f"UPDATE OR IGNORE wiki_urlpath SET (parent_id, slug) = ({_PLACES}SELECT id, "
            "rtrim(substr(:value, length(path) + 1), '/') FROM place WHERE path <> :value "
            "AND substr(:value, 1, length(path)) = path ORDER BY length(path) DESC LIMIT 1) "
            "WHERE article_id = :id",
        ],
    },
    insert="INSERT INTO wiki_article (created, modified, group_read, group_write, other_read, other_write) "
    f"VALUES ({_NEW}, {_NEW}, 1, 1, 1, 1)",
    newest="SELECT max(id) FROM wiki_article",
    delete=[
        "DELETE FROM wiki_urlpath WHERE article_id = :id",
        "DELETE FROM wiki_articlerevision WHERE article_id = :id",
        "DELETE FROM wiki_article WHERE id = :id",
    ],
)  # fmt: skip

WIKI = Database(
    "wiki",
    "django-wiki 0.13.0",
    "wiki.db",
    {
        "page": _PAGE,
        "version": Table(
            "SELECT r.id AS id, r.article_id AS page, r.revision_number AS number, r.title AS title, "
            f"{_text('r.content')} AS text, u.username AS author FROM wiki_articlerevision r "
            f"LEFT JOIN auth_user u ON u.id = r.user_id WHERE r.created < {_NEW} ORDER BY r.id"
        ),
        "writer": Table(
            "SELECT id, username, email, password, is_staff AS staff, is_active AS active FROM auth_user "
            "ORDER BY id"
        ),
    },
    Entry("/_accounts/login/", _ENTER, "document.querySelector('.notification-cnt') !== null"),
)
ORIGIN = origin(WIKI.site)
