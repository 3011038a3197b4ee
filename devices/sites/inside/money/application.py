"""The application of the site `money`, as its seed program and its server set it up."""

import warnings
from pathlib import Path

from flask import Flask
from ihatemoney.run import create_app  # type: ignore[import-not-found]


class Settings:
    SECRET_KEY = "not a secret: one user, one instance"
    SESSION_COOKIE_SECURE = False
    RATELIMIT_ENABLED = False
    ACTIVATE_DEMO_PROJECT = False
    SITE_NAME = "Shared money"
    PASSWORD_HASH_METHOD = "pbkdf2:sha256:1000"  # quick: the password is no secret
    SUPPORTED_LANGUAGES = ("en",)


def application(data: Path) -> Flask:
    """The application over the database in the folder `data`, which it brings up to date first."""

    class Here(Settings):
        SQLALCHEMY_DATABASE_URI = f"sqlite:///{data}/money.db"

    with warnings.catch_warnings(action="ignore"):  # of a database in a folder for what may be lost
        served: Flask = create_app(configuration=Here)
    return served
