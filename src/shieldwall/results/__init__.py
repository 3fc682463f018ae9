"""What runs say: run folders and archives read once, certificates, and the rows and numbers made of them."""
