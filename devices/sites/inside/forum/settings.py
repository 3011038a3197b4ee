"""Settings of the site `forum`: Spirit as its project template has it, on SQLite, with nothing outside."""

import os
from pathlib import Path

from spirit.extra.project_template.project_name.settings.base import *  # type: ignore[import-not-found]  # noqa: F403  (how Spirit is configured)

DATA = Path(os.environ["FORUM_DATA"])
SECRET_KEY = "not a secret: one user, one instance"
ALLOWED_HOSTS = ["forum.test", "127.0.0.1"]
ROOT_URLCONF = "urls"
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA / "forum.db",
        "ATOMIC_REQUESTS": True,
        "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
    }
}
CACHES = {
    name: {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    for name in ("default", "st_rate_limit")
}
HAYSTACK_CONNECTIONS = {
    "default": {"ENGINE": "haystack.backends.whoosh_backend.WhooshEngine", "PATH": str(DATA / "index")}
}
MEDIA_ROOT = DATA / "media"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # quick: the password is no secret
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
LOGGING = {"version": 1, "disable_existing_loggers": True}

ST_SITE_URL = "http://forum.test/"
ST_RATELIMIT_ENABLE = False  # no agent writes too fast
