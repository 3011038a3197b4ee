"""Addresses of the site `shop`: Oscar's own, and the pictures of its products."""

from django.apps import apps  # type: ignore[import-not-found]
from django.conf import settings  # type: ignore[import-not-found]
from django.urls import include, path  # type: ignore[import-not-found]
from django.views.static import serve  # type: ignore[import-not-found]

urlpatterns = [
    path("i18n/", include("django.conf.urls.i18n")),
    path("media/<path:path>", serve, {"document_root": settings.MEDIA_ROOT}),
    path("", include(apps.get_app_config("oscar").urls[0])),
]
