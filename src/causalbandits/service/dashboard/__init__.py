"""The dashboard: pages, their panels and pictures."""

from causalbandits.service.dashboard.pages import (
    COOKIE,
    decision,
    enter,
    is_own_form,
    listed,
    live,
    login,
    prepare,
    set_mode,
    shown,
    static,
    what_if,
)

__all__ = [
    "COOKIE",
    "decision",
    "enter",
    "is_own_form",
    "listed",
    "live",
    "login",
    "prepare",
    "set_mode",
    "shown",
    "static",
    "what_if",
]
