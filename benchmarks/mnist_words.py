"""The words of the MNIST page and of its summary in the README, around the tables."""

TITLE = """\
# MNIST: measured, beside the paper

<!-- Written by benchmarks/mnist_page.py from the files in results/mnist: change those, and run it. -->
"""
NOTHING = """\
The network is the one that the literature calls LeNet: two convolutions of 5 x 5, 431,080 parameters. Its
runs are under way and none is measured yet. `python benchmarks/mnist_page.py` will write the results here
beside the paper's numbers, with the difference and its sampling error.
"""
READING = """\
Every table has our row, the paper's row below it, and the difference in points. The numbers are certified
accuracy in %, by L2 radius, over all inputs; an abstention counts as wrong. "Single" is member 1 of our
three. All votes of a run are certified with the same noise samples.
"""
MISSING = """\
Rows that are not measured yet are in [a list](#not-measured-yet) below.
"""
PROTOCOL = """\
{protocol}

The paper: every 10th test image (1,000), n0 = 100, n = 100,000, alpha = 0.001.

A difference in bold is larger than the sampling error: Agresti and Caffo's 95% interval for the difference
of two proportions, with our inputs and the paper's 1,000, does not contain 0 (formula in
`benchmarks/paper_comparison.py`). The interval is conservative, because both sides classify the same
images. It does not include the randomness of training: there is one seed on each side. If we know the
reason for a difference, it is below the table."""
EACH_SIGMA = """\
For DRT, the paper's row is the one with the weights (rho_gd, rho_cm) of our recipe. If the paper has no
such row, it is the row that is best at the largest radius."""
BEST = """\
At each radius, the best of the three sigmas, selected afterwards as in the paper (its Table 1). For DRT the
paper also takes the best over weights and learning rates; we have one run for each sigma. MACER, Stability
and SWEEN are in the same table of the paper; here they are under "Other methods"."""
ACR = """\
The paper's Table 7. It has one number for MME and WE together, and it does not give DRT's weights. A
difference in bold is larger than 1.96 standard deviations of a difference of two means, with our spread
over inputs for both sides. The last line has the highest ACR published for one network."""
ABLATIONS = "At each radius, the best of the three sigmas."
OTHERS = """\
At each radius, the best of the three sigmas. The paper has one model of MACER, one of Stability, and none of
Consistency."""
AFTER_SMOOTHING = """\
Each member is smoothed first, then they are combined (EAS). At each radius, the best of the three sigmas."""
NOT_MEASURED = """\
Each row has one run of three members per sigma, trained on {images} images. Certifying a run takes {passes}
million forward passes of one member. If you interrupt a command, run it again and it resumes."""
HOURS = "The hours are estimated from the time of one step of 256 images on that device, for all sigmas."

SUMMARY = """\
MNIST, three LeNets, ours / the paper's: the average certified radius (ACR) at each sigma, and the certified
accuracy in % by radius, the best of the three sigmas. A dash means: not measured yet, or not in the paper.
{count}[All tables, the differences, and how each number was made](docs/results.md).

{table}
"""
NO_SUMMARY = """\
The paper's MNIST tables are being measured with the LeNet of the literature; none of the {count} runs is done
yet. [The list has the command for each run](docs/results.md).
"""
