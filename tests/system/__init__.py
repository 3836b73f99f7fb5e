"""What differs between operating systems. All of it runs on Windows too: `make windows`."""
