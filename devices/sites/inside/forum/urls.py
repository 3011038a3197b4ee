"""Addresses of the site `forum`: Spirit's own."""

from django.urls import include, path  # type: ignore[import-not-found]

urlpatterns = [path("", include("spirit.urls"))]
