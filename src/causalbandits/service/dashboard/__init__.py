"""The dashboard: HTML pages with panels and charts."""

from causalbandits.service.dashboard.pages import (
    is_own_form,
    list_studies,
    log_in,
    set_mode,
    show_decision,
    show_login,
    show_study,
    static_file,
    stream_changes,
    warm_up,
    what_if,
)

__all__ = [
    "is_own_form",
    "list_studies",
    "log_in",
    "set_mode",
    "show_decision",
    "show_login",
    "show_study",
    "static_file",
    "stream_changes",
    "warm_up",
    "what_if",
]
