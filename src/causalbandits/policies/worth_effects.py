"""What an action is worth where cells have main effects in common (`policies.effects`): a reward of one cell teaches of
the others.

As in `policies.worth`, with the covariances K of the cells' means in the place of their variances: of the difference
c = P(. | a) - P(. | b) of two actions,

    v   = c' K c                                            how uncertain it is
    r_x = sum_z P(z | x) (c' K)_z^2 / (K_zz + noise)        how much of that one try of x takes away, x = a, b

K = s^2 (diag(lambda_2 h) + G G'), h_z = 1 / (1 + lambda_2 n_z), and R'g = h_z f(z) for the row g of G that is z's own.
"""

from __future__ import annotations

from causalbandits._types import Array
from causalbandits.errors import SizeError
from causalbandits.policies.effects import EffectsPosterior
from causalbandits.policies.factor import whitened
from causalbandits.policies.worth import worth_of_many

ROWS_LIMIT = 2**22
"""Searched actions times configurations are no more than this: every action has a row of its own."""


def refuse_rows(id: str, actions: int, configurations: int) -> None:
    """Every action is compared with the best, cell by cell."""
    if actions * configurations > ROWS_LIMIT:
        raise SizeError(
            f"The policy {id!r} looks at {actions} actions in each of {configurations} configurations; the limit is "
            f"{ROWS_LIMIT} in all. Use 'c-gittins-scaled', or 'c-ts-effects', which draws."
        )


def worth_by_effects(rows: Array, b: int, p: EffectsPosterior, patience: float) -> Array:
    """What each action is worth beyond its mean, if b is the best by its mean; `rows` are P(. | a)."""
    c = rows - rows[b]
    own, shared = p.remainder * p.shrink, p.known * whitened(p.features * p.shrink[:, None], p.R)
    along = c @ shared
    v = p.noise * ((c * c) @ own + (along * along).sum(axis=1))
    together = c * own + along @ shared.T
    taken = p.noise * together * together / (1.0 + own + (shared * shared).sum(axis=1))
    return worth_of_many(v, (c * taken).sum(axis=1), taken @ rows[b], patience)
