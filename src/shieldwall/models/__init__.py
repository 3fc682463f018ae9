"""Members: the networks that ship, a user's own by name, and what is done to any of them."""
