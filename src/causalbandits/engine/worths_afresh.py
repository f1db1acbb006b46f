"""What every action is worth, compiled: what is made afresh where another is the best by its mean."""

from typing import NamedTuple

from numba.extending import register_jitable

from causalbandits._types import Array
from causalbandits.engine.choosing import agreeing, column, least_tied, listed, project
from causalbandits.engine.worths import ABOVE, place_of, psi, worth_of_one
from causalbandits.policies.worth import EQUAL


class Room(NamedTuple):
    """Where numbers are put on the way: two of every cell, two levels of a tree, and five of every action."""

    some: Array
    more: Array
    one: Array
    two: Array
    parts: Array


@register_jitable
def weigh_afresh(trees, context, row, variance, taken, length, room, v, gain, rest):
    """As `worth.multiplied_out`: v, r_a - r_b and r_b of every action, `row` being the best one's."""
    own = third = 0.0
    for i in range(length):
        c = place_of(trees.whole, context, i)
        own, third = own + row[i] * row[i] * variance[c], third + row[i] * row[i] * row[i] * taken[c]
    project_powers(trees, context, row, variance, taken, length, room, len(v))
    pq, ppw, qq, pw, cube = room.parts[0], room.parts[1], room.parts[2], room.parts[3], room.parts[4]
    for a in range(len(v)):
        v[a] = own - 2.0 * pq[a] + qq[a]
        if v[a] <= EQUAL * own:
            v[a] = 0.0
        gain[a] = 3.0 * ppw[a] - third - 3.0 * pw[a] + cube[a]
        rest[a] = third - 2.0 * ppw[a] + pw[a]


@register_jitable
def project_powers(trees, context, row, variance, taken, length, room, actions):
    """The five sums over configurations, each a projection."""
    some, more, one, two, parts = room
    for i in range(length):
        c = place_of(trees.whole, context, i)
        some[i], more[i] = row[i] * variance[c], row[i] * row[i] * taken[c]
    listed(trees.one, context, project(trees.one, context, some, length, one, two), actions, parts[0])
    listed(trees.one, context, project(trees.one, context, more, length, one, two), actions, parts[1])
    for i in range(length):
        c = place_of(trees.whole, context, i)
        some[i], more[i] = variance[c], row[i] * taken[c]
    listed(trees.one, context, project(trees.two, context, some, length, one, two), actions, parts[2])
    listed(trees.one, context, project(trees.two, context, more, length, one, two), actions, parts[3])
    for i in range(length):
        some[i] = taken[place_of(trees.whole, context, i)]
    listed(trees.one, context, project(trees.three, context, some, length, one, two), actions, parts[4])


@register_jitable
def weigh_by_columns(columns, offset, step, by_cell, tree, context, length, b, variance, taken, v, gain, rest):
    """The same from the columns of P: as `worth.worth_of_each` of small sets, a configuration at a time.

    The columns begin at `offset`, one after `step` entries, for all cells or for those that agree with the context.
    """
    v[:], gain[:], rest[:] = 0.0, 0.0, 0.0
    for i in range(length):
        c = agreeing(tree.cells, context, i)
        at = offset + (c if by_cell else i) * step
        add_apart(columns[at : at + len(v)], columns[at + b], variance[c], taken[c], v, gain, rest)


@register_jitable
def add_apart(entries, own, variance, taken, v, gain, rest):
    """What a configuration adds, by its entries of P and the best one's own."""
    for a in range(len(entries)):
        apart = entries[a] - own
        square = apart * apart
        away = square * taken
        v[a] += square * variance
        gain[a] += apart * away
        rest[a] += own * away


@register_jitable
def fill_columns(tree, context, length, first, actions, positions, one, two, columns):
    """The columns of P of a context's actions, a cell's after another's."""
    for i in range(length):
        c = agreeing(tree.cells, context, i)
        start = c * positions + first
        nodes = column(tree, context, place_in(tree, context, c), length, one, two)
        listed(tree, context, nodes, actions, columns[start : start + actions])


@register_jitable
def place_in(tree, context, cell):
    """Where a cell stands in the order of a context's tree."""
    start = tree.place.starts[context]
    return tree.place.values[start + cell] if tree.place.starts[context + 1] > start else cell


@register_jitable
def add_worths(scores, b, scale, v, gain, rest, patience):
    """What actions are worth beyond their means, as far as it could make them better than the best mean."""
    best, top = scores[b], ABOVE * psi(patience)
    squared = top * top
    for a in range(len(v)):
        behind = least_tied(best, scale) - scores[a]
        if behind <= 0.0 or behind * behind <= squared * v[a]:
            scores[a] += worth_of_one(v[a], gain[a], rest[a], patience)
            best = max(best, scores[a])
