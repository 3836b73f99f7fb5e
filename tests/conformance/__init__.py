"""The official conformance suite, against a server and a client that have everything."""
