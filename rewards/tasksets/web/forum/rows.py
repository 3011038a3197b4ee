"""What the site `forum` (Spirit) keeps: topics, what was written in them, and what its members chose.

What reading a page changes by itself (views, bookmarks, what is unread) is none of it, and neither are the
lines that Spirit adds to a topic that is moved, closed or pinned, nor that who writes in a topic watches it
from then on. A post's text is compared without white space at its ends.
"""

from rewards.tasksets.web.store import Database, Entry, Table, origin

ME = "dana"
_NEW = "'2026-03-05 09:00:00'"  # seeded rows are older
# Awaited: the next navigation would cancel a form that is still being sent. Without a form (the site does not
# answer yet) nobody is logged in, which set-up finds and reports as a fault to try again after.
_ENTER = f"""
return fetch('/user/login/').then(answer => answer.text()).then(text => {{
  const page = new DOMParser().parseFromString(text, 'text/html');
  const form = page.querySelector('form:has([name=password])');
  if (!form) return;
  form.elements.username.value = '{ME}';
  form.elements.password.value = 'timetable';
  return fetch('/user/login/', {{method: 'POST', body: new FormData(form)}}).then(() => {{}});
}});
"""
# Spirit sends a like by a script: the link that was clicked has the focus, and once it is sent a new address.
_LIKED = "document.activeElement?.matches('.js-like[href$=\"/create/\"]') !== true"
# A seeded topic is told by its key, so that it may get another title; a new one by its title.
_TOPIC = f"CASE WHEN t.date < {_NEW} THEN 'topic/' || t.id ELSE t.title END"
_JOINED = "LEFT JOIN spirit_topic_topic t ON t.id = x.topic_id LEFT JOIN auth_user u ON u.id = x.user_id"


def _set(table: str, column: str, value: str = ":value") -> list[str]:
    # Ignored where two rows would be of the same user and the same thing, which Spirit rules out.
    return [f"UPDATE OR IGNORE {table} SET {column} = {value} WHERE id = :id"]


def _user(table: str, column: str = "user_id") -> list[str]:
    return _set(table, column, "(SELECT id FROM auth_user WHERE username = :value)")


def _in_topic(table: str) -> list[str]:
    found = f"(SELECT max(t.id) FROM spirit_topic_topic t WHERE {_TOPIC} = :value)"
    return _set(table, "topic_id", f"coalesce({found}, topic_id)")


def _table(
    table: str, select: str, columns: dict[str, list[str]] | None = None, fresh: str = "", values: str = ""
) -> Table:
    """A table of the database; `fresh` and `values` are the columns that a new row has to have at once."""
    return Table(
        f"{select} ORDER BY x.id",
        columns or {},
        insert=f"INSERT INTO {table} ({fresh}) VALUES ({values})",
        newest=f"SELECT max(id) FROM {table}",
        delete=[f"DELETE FROM {table} WHERE id = :id"],
    )


_TOPICS, _POSTS = "spirit_topic_topic", "spirit_comment_comment"
_LIKES, _FLAGS = "spirit_comment_like_commentlike", "spirit_comment_flag_flag"
_INSIDE, _NOTICES = "spirit_topic_private_topicprivate", "spirit_topic_notification_topicnotification"
_CHOICES, _VOTES = "spirit_comment_poll_commentpollchoice", "spirit_comment_poll_commentpollvote"
_POLLS = "spirit_comment_poll_commentpoll"
_CATEGORIES, _PROFILES = "spirit_category_category", "spirit_user_userprofile"


def _profile(column: str) -> list[str]:
    return [f"UPDATE {_PROFILES} SET {column} = :value WHERE user_id = :id"]


FORUM = Database(
    "forum",
    "Spirit 0.14.3",
    "forum.db",
    {
        "topic": _table(
            _TOPICS,
            "SELECT x.id AS id, x.title AS title, c.title AS board, u.username AS author, "
            "x.is_pinned AS pinned, x.is_globally_pinned AS on_top, x.is_closed AS closed, "
            f"x.is_removed AS removed FROM {_TOPICS} x LEFT JOIN {_CATEGORIES} c ON c.id = x.category_id "
            "LEFT JOIN auth_user u ON u.id = x.user_id",
            {
                "title": _set(_TOPICS, "title"),
                "board": _set(
                    _TOPICS,
                    "category_id",
                    f"coalesce((SELECT id FROM {_CATEGORIES} WHERE title = :value), category_id)",
                ),
                "author": _user(_TOPICS),
                "pinned": _set(_TOPICS, "is_pinned"),
                "on_top": _set(_TOPICS, "is_globally_pinned"),
                "closed": _set(_TOPICS, "is_closed"),
                "removed": _set(_TOPICS, "is_removed"),
            },
            "user_id, category_id, title, slug, date, last_active, reindex_at, is_pinned, "
            "is_globally_pinned, is_closed, is_removed, view_count, comment_count",
            f"1, 1, '', 'new', {_NEW}, {_NEW}, {_NEW}, 0, 0, 0, 0, 0, 0",
        ),
        "post": _table(
            _POSTS,
            f"SELECT x.id AS id, trim(replace(x.comment, char(13), ''), char(10) || ' ') AS text, {_TOPIC} "
            f"AS topic, u.username AS author, x.is_removed AS removed FROM {_POSTS} x {_JOINED} "
            "WHERE x.action = 0",
            {
                "text": _set(_POSTS, "comment"),
                "topic": _in_topic(_POSTS),
                "author": _user(_POSTS),
                "removed": _set(_POSTS, "is_removed"),
            },
            "user_id, topic_id, comment, comment_html, action, date, is_removed, is_modified, "
            "modified_count, likes_count",
            f"1, 1, '', '', 0, {_NEW}, 0, 0, 0, 0",
        ),
        "like": _table(
            _LIKES,
            f"SELECT x.id AS id, 'post/' || x.comment_id AS post, u.username AS who FROM {_LIKES} x "
            "LEFT JOIN auth_user u ON u.id = x.user_id",
            {"post": _set(_LIKES, "comment_id", "substr(:value, 6)"), "who": _user(_LIKES)},
            "user_id, comment_id, date",
            f"0, 0, {_NEW}",
        ),
        "report": _table(
            _FLAGS,
            "SELECT x.id AS id, 'post/' || x.comment_id AS post, "
            "CASE x.reason WHEN 0 THEN 'Spam' ELSE 'Other' END AS reason, x.body AS body, "
            f"u.username AS who, coalesce(f.is_closed, 0) AS settled FROM {_FLAGS} x LEFT JOIN auth_user u "
            "ON u.id = x.user_id LEFT JOIN spirit_comment_flag_commentflag f ON f.comment_id = x.comment_id",
            {
                "post": _set(_FLAGS, "comment_id", "substr(:value, 6)"),
                "reason": _set(_FLAGS, "reason", "(:value <> 'Spam')"),
                "body": _set(_FLAGS, "body"),
                "who": _user(_FLAGS),
                "settled": [
                    "UPDATE spirit_comment_flag_commentflag SET is_closed = :value "
                    f"WHERE comment_id = (SELECT comment_id FROM {_FLAGS} WHERE id = :id)"
                ],
            },
            "user_id, comment_id, date, reason, body",
            f"0, 0, {_NEW}, 0, ''",
        ),
        "inside": _table(
            _INSIDE,
            f"SELECT x.id AS id, u.username AS who, {_TOPIC} AS topic FROM {_INSIDE} x {_JOINED}",
            {"who": _user(_INSIDE), "topic": _in_topic(_INSIDE)},
            "user_id, topic_id, date",
            f"0, 0, {_NEW}",
        ),
        "watch": _table(
            _NOTICES,
            f"SELECT x.id AS id, {_TOPIC} AS topic, x.is_active AS active FROM {_NOTICES} x {_JOINED} "
            f"JOIN {_POSTS} p ON p.id = x.comment_id WHERE u.username = '{ME}' "
            "AND (p.user_id <> x.user_id OR x.is_active = 0)",
            {"topic": _in_topic(_NOTICES), "active": _set(_NOTICES, "is_active")},
            "user_id, topic_id, comment_id, date, action, is_read, is_active",
            f"1, 0, 1, {_NEW}, 0, 1, 1",
        ),
        "vote": _table(
            _VOTES,
            f"SELECT x.id AS id, c.description AS choice, u.username AS who FROM {_VOTES} x "
            f"LEFT JOIN {_CHOICES} c ON c.id = x.choice_id LEFT JOIN auth_user u ON u.id = x.voter_id "
            "WHERE x.is_removed = 0",
            {
                "choice": _set(
                    _VOTES, "choice_id", f"(SELECT id FROM {_CHOICES} WHERE description = :value)"
                ),
                "who": _user(_VOTES, "voter_id"),
            },
            "voter_id, choice_id, is_removed, created_at",
            f"0, 0, 0, {_NEW}",
        ),
        "choice": _table(
            _CHOICES,
            "SELECT x.id AS id, p.title AS poll, x.description AS description, x.is_removed AS removed "
            f"FROM {_CHOICES} x LEFT JOIN {_POLLS} p ON p.id = x.poll_id",
            {
                "poll": _set(_CHOICES, "poll_id", f"(SELECT id FROM {_POLLS} WHERE title = :value)"),
                "description": _set(_CHOICES, "description"),
            },
            "poll_id, number, description, vote_count, is_removed",
            "0, 99, '', 0, 0",
        ),
        "poll": _table(
            _POLLS,
            "SELECT x.id AS id, 'post/' || x.comment_id AS post, x.title AS question, "
            f"x.close_at IS NOT NULL AS closed, x.is_removed AS removed FROM {_POLLS} x",
        ),
        "board": _table(
            _CATEGORIES,
            "SELECT x.id AS id, x.title AS title, x.description AS description, x.parent_id AS parent, "
            f"x.is_closed AS closed, x.is_removed AS removed, x.is_private AS private FROM {_CATEGORIES} x",
        ),
        "person": _table(
            "auth_user",
            "SELECT x.id AS id, x.username AS username, x.email AS email, x.password AS password, "
            "x.is_active AS active, x.first_name AS first_name, x.last_name AS last_name, "
            "s.nickname AS nickname, s.location AS location, s.timezone AS timezone, s.notify AS notify, "
            "s.avatar AS avatar, "
            "s.is_administrator AS administrator, s.is_moderator AS moderator, s.is_verified AS verified "
            f"FROM auth_user x LEFT JOIN {_PROFILES} s ON s.user_id = x.id",
            {
                "first_name": _set("auth_user", "first_name"),
                "last_name": _set("auth_user", "last_name"),
                "location": _profile("location"),
                "notify": _profile("notify"),
                "administrator": _profile("is_administrator"),
                "moderator": _profile("is_moderator"),
            },
        ),
        "setting": _table("djconfig_config", "SELECT x.id AS id, x.key AS name, x.value AS value "
                          "FROM djconfig_config x"),
    },
    Entry("/", _ENTER, "document.querySelector('a[href*=logout]') !== null"),
    _LIKED,
)  # fmt: skip
ORIGIN = origin(FORUM.site)
