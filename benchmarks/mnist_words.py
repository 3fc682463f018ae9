"""The words of the MNIST page and of its summary in the README, around the tables."""

PAGE = """\
# MNIST: measured, beside the paper

<!-- Written by benchmarks/mnist_page.py from the files in results/mnist: change those, and run it. -->

Every table has our row, the paper's below it, and the difference in points. Certified accuracy in %, by L2
radius, over all inputs, abstentions among them. "Single" is member 1 of our three; all votes of a
run are certified from the same draws.

## Protocol

{protocol}

The paper: every 10th test image (1,000), n0 = 100, n = 100,000, alpha = 0.001.

Differences in bold are beyond the sampling error: Agresti and Caffo's 95% interval for the difference of two
proportions, of our inputs and of the paper's 1,000, does not hold 0 (formula in
`benchmarks/paper_comparison.py`): conservative, as both sides classify the same images; the randomness of
training, one seed on either side, is not in it. Where we know why we differ, it says so below the table.

## 1. Each sigma

Of DRT, the row with the weights (rho_gd, rho_cm) of our recipe; where the paper has none with these, its row
that is best at the largest radius.

{each_sigma}

## 2. The best over sigma

At each radius the best of the three sigmas, chosen after the fact, as the paper does (its Table 1). Of DRT
the paper also takes the best over weights and learning rates; ours is one run for each sigma. MACER,
Stability and SWEEN, which stand in the same table, are in section 5.

{main}

## 3. Average certified radius

The paper's Table 7, which has one number for MME and WE together, and DRT's without its weights. In bold are
differences of more than 1.96 standard deviations of a difference of two means, either side's spread over
inputs taken to be ours. The last line has the highest ACR published for one network.

{acr}

## 4. Ablations

The best over sigma at each radius.

### DRT's two terms (the paper's Table 12)

{terms}

### Members of DRT's ensembles (the paper's Table 14)

{members}

### Equal and tuned weights (the paper's Table 16)

{weights}

### Other ways to diverse ensembles (the paper's Table 18)

{diversity}

## 5. Other methods

The best over sigma at each radius. The paper has one model of MACER and of Stability each, and nothing of
Consistency.

{others}

## 6. Beyond the paper

### Ensembles after smoothing

Members smoothed each for itself, then combined (EAS): the best over sigma at each radius.

{after_smoothing}
{other_rows}
### The ACR of every vote

{every_acr}

## 7. What a training step costs

{efficiency}

## 8. How each was made

{made}
"""

SUMMARY = """\
MNIST, three LeNets, ours / the paper's: average certified radius (ACR) at each sigma, and certified accuracy
in % by radius, the best over sigma. A dash is not yet measured, or not in the paper.
{count}[All tables, what differs by how much, and how each was made](docs/results.md).

{table}
"""
