"""Addresses of the site `wiki`: django-wiki's own."""

from django.urls import include, path  # type: ignore[import-not-found]

urlpatterns = [path("", include("wiki.urls"))]
