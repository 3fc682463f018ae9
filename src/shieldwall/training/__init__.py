"""Training: objectives, and the loop that minimises them."""
