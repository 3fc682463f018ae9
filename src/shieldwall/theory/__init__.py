"""The paper's theory, computable: when an ensemble is robust at an input, and how WE and MME compare.

    from shieldwall.theory import conditions, first_order

    plain = first_order.first_order(members, x, y)
    conditions.eri_weighted(plain.margins, plain.gradients, None, r=0.25)

| module | what it has |
| --- | --- |
| conditions | sufficient and necessary conditions of WE, MME and single members, their radii, ERI |
| smoothness | how smooth Gaussian noise makes a confidence |
| comparison | an ensemble of two against each alone; optimal weights; more members |
| statistical, uniform | how often a vote is right under noise, bounded; WE against MME |
| strategies | smoothing before or after an ensemble of two |
| first_order | margins and gradients of real members, with and without soft smoothing, with error bars |
| transferability | lambda_1, lambda_2 and X of real members; ROC curves (fig:roc); attacks that transfer |
| diagnosis | all of these at the inputs of a run; the ERI of each vote and the radii that follow |

`docs/equations.md` maps every label of the paper to its function.
"""
