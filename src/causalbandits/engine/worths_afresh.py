"""What every action is worth, compiled: what is made afresh where another is the best by its mean."""

from numba.extending import register_jitable

from causalbandits.engine.choosing import agreeing, least_tied
from causalbandits.engine.projecting import column, listed
from causalbandits.engine.worths import ABOVE, place_of, psi, worth_of_one
from causalbandits.policies.worth import EQUAL

SUMS = 5
"""What is summed of every configuration, one beside another: see `weigh_afresh`."""


@register_jitable
def weigh_afresh(tree, context, row, variance, taken, length, one, two, v, gain, rest):
    """As `worth.multiplied_out`: v, r_a - r_b and r_b of every action, `row` being the best one's.

    All sums are taken in one pass over the tree; `one` and `two` have room for five numbers at every place.
    """
    own = third = 0.0
    for i in range(length):
        c, p, sums = place_of(tree, context, i), row[i], one[i]
        q, w = variance[c], taken[c]
        own, third = own + p * p * q, third + p * p * p * w
        sums[0], sums[1], sums[2], sums[3], sums[4] = p * q, p * p * w, q, p * w, w
    found = project_powers(tree, context, length, one, two)
    nodes, listed = tree.node_of_action.starts[context], tree.node_of_action
    in_order = listed.starts[context + 1] == nodes
    for a in range(len(v)):
        pq, ppw, qq, pw, cube = found[a if in_order else listed.values[nodes + a]]
        v[a] = own - 2.0 * pq + qq
        if v[a] <= EQUAL * own:
            v[a] = 0.0
        gain[a] = 3.0 * ppw - third - 3.0 * pw + cube
        rest[a] = third - 2.0 * ppw + pw


@register_jitable
def project_powers(tree, context, rest, y, out):
    """Of the five numbers of every configuration the first two are summed under P, two under P^2, the last under P^3.

    What belongs to a node stays together: a level reads its parents' numbers in one piece.
    """
    nodes = 1
    for level in range(len(tree.sizes)):
        size, width, start = tree.sizes[level], tree.widths[context, level], tree.starts[context, level]
        parents = tree.parent_starts[context, level]
        rest, every = rest // size, (1 if parents >= 0 else nodes)
        for before in range(every):
            for c in range(width):
                node = tree.parents[parents + c] if parents >= 0 else before
                add_powers(tree.columns, start + c, width, size, y, node, rest, out, before * width + c)
        nodes = every * width
        y, out = out, y
    return y


@register_jitable
def add_powers(columns, entry, width, size, y, node, rest, out, to):
    """The sums of one node: its entries of P are `width` apart."""
    for r in range(rest):
        at, p_at = node * size * rest + r, entry
        pq = ppw = qq = pw = cube = 0.0
        for _ in range(size):
            p, own = columns[p_at], y[at]
            square = p * p
            pq, ppw = pq + own[0] * p, ppw + own[1] * p
            qq, pw = qq + own[2] * square, pw + own[3] * square
            cube += own[4] * (square * p)
            at, p_at = at + rest, p_at + width
        own = out[to * rest + r]
        own[0], own[1], own[2], own[3], own[4] = pq, ppw, qq, pw, cube


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
