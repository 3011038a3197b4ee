"""Metrics on documents: tables, texts, slides, PDFs, and LibreOffice's own settings."""

_MODULES = {
    "tables": ("compare_table", "compare_csv", "check_csv", "compare_conference_city_in_order"),
    "documents": (
        "compare_docx_files",
        "compare_docx_files_and_ignore_new_lines",
        "compare_docx_tables",
        "compare_docx_images",
        "compare_line_spacing",
        "compare_references",
        "compare_unique_train_records",
    ),
    "formatting": (
        "is_first_line_centered",
        "has_page_numbers_in_footers",
        "contains_page_break",
        "compare_font_names",
        "compare_subscript_contains",
        "evaluate_strike_through_last_paragraph",
        "check_italic_font_size_14",
        "evaluate_colored_words_in_tables",
        "check_tabstops",
        "check_highlighted_words",
    ),
    "slides": ("compare_pptx_files",),
    "slide_checks": (
        "check_slide_orientation_Portrait",
        "evaluate_presentation_fill_to_rgb_distance",
        "check_transition",
        "check_image_stretch_and_center",
        "check_page_number_colors",
    ),
    "settings": (
        "find_default_font",
        "check_presenter_console_disable",
        "check_auto_saving_time",
        "check_left_panel",
    ),
    "pdf": ("compare_pdfs", "check_pdf_pages", "compare_pdf_images"),
    "markup": ("compare_htmls", "compare_epub"),
}
METRICS: dict[str, str] = {name: f"{module}:{name}" for module, names in _MODULES.items() for name in names}
