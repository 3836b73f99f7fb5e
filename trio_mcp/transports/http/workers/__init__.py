"""One server in several processes: a parent that serves nothing, and workers that it looks after.

The parent opens the listening sockets and runs the same program again for each worker. There,
`serve_http` finds the parent's channel in the environment and serves with the parent's sockets.
Sockets stay open while workers come and go, so a client that connects meanwhile waits for the next.
"""
