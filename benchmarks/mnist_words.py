"""The words of the MNIST page and of its summary in the README, around the tables."""

TITLE = """\
# MNIST: measured, beside the paper

<!-- Written by benchmarks/mnist_page.py from the files in results/mnist: change those, and run it. -->
"""
NOTHING = """\
The runs of the network that the literature calls LeNet are under way: two convolutions of 5 x 5, 431,080
parameters. None is measured yet. What is measured will stand here beside the paper's numbers, with the
difference and its sampling error, written by `python benchmarks/mnist_page.py`.
"""
READING = """\
Every table has our row, the paper's below it, and the difference in points. Certified accuracy in %, by L2
radius, over all inputs, abstentions among them. "Single" is member 1 of our three; all votes of a
run are certified from the same draws.
"""
MISSING = """\
Rows that are not measured yet stand in [a list](#not-measured-yet) of their own.
"""
PROTOCOL = """\
{protocol}

The paper: every 10th test image (1,000), n0 = 100, n = 100,000, alpha = 0.001.

Differences in bold are beyond the sampling error: Agresti and Caffo's 95% interval for the difference of two
proportions, of our inputs and of the paper's 1,000, does not hold 0 (formula in
`benchmarks/paper_comparison.py`): conservative, as both sides classify the same images; the randomness of
training, one seed on either side, is not in it. Where we know why we differ, it says so below the table."""
EACH_SIGMA = """\
Of DRT, the row with the weights (rho_gd, rho_cm) of our recipe; where the paper has none with these, its row
that is best at the largest radius."""
BEST = """\
At each radius the best of the three sigmas, chosen after the fact, as the paper does (its Table 1). Of DRT
the paper also takes the best over weights and learning rates; ours is one run for each sigma. MACER,
Stability and SWEEN, which stand in the same table, are under "Other methods"."""
ACR = """\
The paper's Table 7, which has one number for MME and WE together, and DRT's without its weights. In bold are
differences of more than 1.96 standard deviations of a difference of two means, either side's spread over
inputs taken to be ours. The last line has the highest ACR published for one network."""
ABLATIONS = "The best over sigma at each radius."
OTHERS = """\
The best over sigma at each radius. The paper has one model of MACER and of Stability each, and nothing of
Consistency."""
AFTER_SMOOTHING = """\
Members smoothed each for itself, then combined (EAS): the best over sigma at each radius."""
NOT_MEASURED = """\
Of each row and sigma one run of three members, trained on {images} images; certifying it takes {passes}
million forward passes of one member. An interrupted command resumes where it stopped."""
HOURS = "Hours are reckoned from what a step of 256 images takes there, all sigmas together."

SUMMARY = """\
MNIST, three LeNets, ours / the paper's: average certified radius (ACR) at each sigma, and certified accuracy
in % by radius, the best over sigma. A dash is not yet measured, or not in the paper.
{count}[All tables, what differs by how much, and how each was made](docs/results.md).

{table}
"""
NO_SUMMARY = """\
The paper's MNIST tables are being measured with the LeNet of the literature; none of the {count} runs is done
yet. [The list, with the command for each](docs/results.md).
"""
