"""Commands about the library itself: its policies."""

from __future__ import annotations

from causalbandits.cli.show import print_rows


def policies() -> None:
    """List the policies with their ids and references."""
    from rich.console import Console

    from causalbandits.policies import POLICIES
    from causalbandits.results.citations import OF_POLICY, TITLES

    rows = [(id, kind.__name__, "; ".join(TITLES[key] for key in OF_POLICY[id])) for id, (kind, _) in POLICIES.items()]
    print_rows(Console(), "Policies", ("id", "class", "reference"), rows)
