"""Training: objectives, and the one loop that minimises them."""
