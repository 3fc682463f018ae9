"""Results: run folders and archives, certificates, and the rows and numbers of tables."""
