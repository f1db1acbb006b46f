"""The dashboard: HTML pages with panels and charts."""

from causalbandits.service.dashboard.pages import (
    error_page,
    list_problem_types,
    list_studies,
    log_in,
    set_mode,
    show_decision,
    show_login,
    show_problem_type,
    show_study,
    static_file,
    stream_changes,
    warm_up,
    what_if,
)

__all__ = [
    "error_page",
    "list_problem_types",
    "list_studies",
    "log_in",
    "set_mode",
    "show_decision",
    "show_login",
    "show_problem_type",
    "show_study",
    "static_file",
    "stream_changes",
    "warm_up",
    "what_if",
]
