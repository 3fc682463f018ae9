"""The paper's theory, computable: when an ensemble is robust at an input, and how WE and MME compare.

    from shieldwall.theory import conditions, first_order

    plain = first_order.first_order(members, x, y)
    conditions.weighted_conditions(plain.margins, plain.gradients, beta=0).eri(r=0.25)

Functions of numbers: conditions, comparison, statistical, strategies. Real members: first_order,
diagnosis. `docs/equations.md` maps every label of the paper to its function.
"""
