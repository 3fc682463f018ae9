from shieldwall.cli import main

main()
