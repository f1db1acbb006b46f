"""Compiled projection from one number per configuration to one per action: see `problem.projection`.

Each function mirrors the corresponding uncompiled function, operation by operation and in the same order;
`tests/engine/compiled` compares them.
"""

from numba.extending import register_jitable

WIDE = 64
"""The number of columns from which an array is read row by row; each sum is still taken in order."""


@register_jitable
def add_rows(table, weights, sums):
    """The weighted sum of an array's rows, for every column."""
    width = len(sums)
    for c in range(width):
        sums[c] = weights[0] * table[c]
    for z in range(1, len(weights)):
        weight, row = weights[z], table[z * width : (z + 1) * width]
        for c in range(width):
            sums[c] += weight * row[c]


@register_jitable
def add_rows_of_both(table, weights, second_weights, sums, second_sums):
    """Two weighted sums of an array's rows, in one pass over the array."""
    width = len(sums)
    for c in range(width):
        sums[c], second_sums[c] = weights[0] * table[c], second_weights[0] * table[c]
    for z in range(1, len(weights)):
        weight, second_weight, row = weights[z], second_weights[z], table[z * width : (z + 1) * width]
        for c in range(width):
            sums[c] += weight * row[c]
            second_sums[c] += second_weight * row[c]


@register_jitable
def is_one_table(tree, context):
    """Whether P is a single array, so wide that reading it dominates the time."""
    if len(tree.sizes) != 1 or tree.parent_starts[context, 0] >= 0 or tree.widths[context, 0] < WIDE:
        return False
    ordered = tree.by_block.starts[context + 1] > tree.by_block.starts[context]
    return not ordered and tree.node_of_action.starts[context + 1] == tree.node_of_action.starts[context]


@register_jitable
def is_list(tree, context):
    """Whether actions are enumerated over several blocks, so that finding segment starts dominates the time."""
    return tree.parent_starts[context, len(tree.sizes) - 1] >= 0


@register_jitable
def project_both(tree, context, x, y, length, pairs_a, pairs_b, sums, second_sums):
    """`project` of both vectors if P is a single array or a list; `pairs_a` and `pairs_b` are work arrays for pairs."""
    if is_one_table(tree, context):
        start, width = tree.starts[context, 0], tree.widths[context, 0]
        add_rows_of_both(tree.columns[start : start + length * width], x[:length], y[:length], sums, second_sums)
        return
    order, nodes = tree.by_block.starts[context], tree.node_of_action
    ordered = tree.by_block.starts[context + 1] > order
    for i in range(length):
        at = tree.by_block.values[order + i] if ordered else i
        pairs_a[i, 0], pairs_a[i, 1] = x[at], y[at]
    projected, start = project_pairs(tree, context, length, pairs_a, pairs_b), nodes.starts[context]
    in_order = nodes.starts[context + 1] == start
    for a in range(len(sums)):
        sums[a], second_sums[a] = projected[a if in_order else nodes.values[start + a]]


@register_jitable
def project_pairs(tree, context, rest, y, out):
    """The projection of both vectors level by level; a node's numbers are contiguous, so that a level reads its
    parents' in one segment."""
    nodes = 1
    for level in range(len(tree.sizes)):
        size, width, start = tree.sizes[level], tree.widths[context, level], tree.starts[context, level]
        parents = tree.parent_starts[context, level]
        rest, groups = rest // size, (1 if parents >= 0 else nodes)
        for before in range(groups):
            for c in range(width):
                node, to = tree.parents[parents + c] if parents >= 0 else before, (before * width + c) * rest
                for r in range(rest):
                    at, entry, first, second = node * size * rest + r, start + c, 0.0, 0.0
                    for _ in range(size):
                        p, pair = tree.columns[entry], y[at]
                        first, second = first + pair[0] * p, second + pair[1] * p
                        at, entry = at + rest, entry + width
                    out[to + r, 0], out[to + r, 1] = first, second
        nodes = groups * width
        y, out = out, y
    return y


@register_jitable
def project(tree, context, x, length, buffer_a, buffer_b):
    """As `Projection.__call__` on the cells of a context, before sorting into action order."""
    y, out = buffer_a, buffer_b
    order = tree.by_block.starts[context]
    ordered = tree.by_block.starts[context + 1] > order
    for i in range(length):
        y[i] = x[tree.by_block.values[order + i]] if ordered else x[i]
    columns = tree.columns
    for level in range(len(tree.sizes)):
        size, width, before = tree.sizes[level], tree.widths[context, level], tree.before[context, level]
        start, parents = tree.starts[context, level], tree.parent_starts[context, level]
        stride = length // size
        if parents >= 0:
            rest = stride // before
            for r in range(rest):
                for c in range(width):
                    at = r * before + tree.parents[parents + c]
                    total = y[at] * columns[start + c]
                    for z in range(1, size):
                        total += y[z * stride + at] * columns[start + z * width + c]
                    out[r * width + c] = total
            length = rest * width
        elif size == 2 and width == 2:  # the common case, without lookups in the loop
            a, b = columns[start], columns[start + 1]
            c, d = columns[start + 2], columns[start + 3]
            for r in range(stride):
                out[2 * r] = y[r] * a + y[stride + r] * c
                out[2 * r + 1] = y[r] * b + y[stride + r] * d
            length = stride * width
        elif width >= WIDE:
            for r in range(stride):
                add_rows(columns[start : start + size * width], y[r:length:stride], out[r * width : (r + 1) * width])
            length = stride * width
        else:
            unrolled = width - width % 4
            for r in range(stride):
                for c in range(0, unrolled, 4):  # four sums at once
                    at, weight = start + c, y[r]
                    s0, s1 = weight * columns[at], weight * columns[at + 1]
                    s2, s3 = weight * columns[at + 2], weight * columns[at + 3]
                    for z in range(1, size):
                        at, weight = at + width, y[z * stride + r]
                        s0, s1 = s0 + weight * columns[at], s1 + weight * columns[at + 1]
                        s2, s3 = s2 + weight * columns[at + 2], s3 + weight * columns[at + 3]
                    to = r * width + c
                    out[to], out[to + 1], out[to + 2], out[to + 3] = s0, s1, s2, s3
                for c in range(unrolled, width):
                    total = y[r] * columns[start + c]
                    for z in range(1, size):
                        total += y[z * stride + r] * columns[start + z * width + c]
                    out[r * width + c] = total
            length = stride * width
        y, out = out, y
    return y


@register_jitable
def write_in_action_order(tree, context, nodes, actions, scores):
    """Scores in the order of the actions."""
    start, end = tree.node_of_action.starts[context], tree.node_of_action.starts[context + 1]
    if end > start:
        for a in range(actions):
            scores[a] = nodes[tree.node_of_action.values[start + a]]
    else:
        for a in range(actions):
            scores[a] = nodes[a]


@register_jitable
def tree_position(tree, context, cell):
    """The position of a cell in the order of a context's tree; -1 if it does not agree with the context."""
    start = tree.place.starts[context]
    return tree.place.values[start + cell] if tree.place.starts[context + 1] > start else cell


@register_jitable
def column(tree, context, at, cells, buffer_a, buffer_b):
    """P(z | a) for every node of the last level, for the configuration at a position."""
    y, out = buffer_a, buffer_b
    y[0] = 1.0
    nodes, rest = 1, cells
    for level in range(len(tree.sizes)):
        width, parents = tree.widths[context, level], tree.parent_starts[context, level]
        rest //= tree.sizes[level]
        code, at = at // rest, at % rest
        start = tree.starts[context, level] + code * width
        if parents >= 0:
            for c in range(width):
                out[c] = y[tree.parents[parents + c]] * tree.columns[start + c]
            nodes = width
        else:
            for node in range(nodes):
                for c in range(width):
                    out[node * width + c] = y[node] * tree.columns[start + c]
            nodes *= width
        y, out = out, y
    return y
