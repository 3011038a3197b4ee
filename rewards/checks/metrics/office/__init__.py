"""Metrics on documents: tables, texts, slides, PDFs."""

METRICS: dict[str, str] = {}  # name: "module:function"
