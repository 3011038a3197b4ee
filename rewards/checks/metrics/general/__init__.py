"""Metrics on everything but documents: values, text files, pictures, sound, settings of applications."""

METRICS: dict[str, str] = {}  # name: "module:function"
