"""No server at all: one replacement over whatever was read turns calls into answers.

It shows how much load the generator can make, and what pipes and processes cost by themselves.
"""

import os

_CALL = b'"method":"tools/call"'
_ANSWER = b'"result":{"content":[{"type":"text","text":"thirty-two characters of a text."}]}'

opening = os.read(0, 1 << 16)
os.write(1, b'{"jsonrpc":"2.0","id":0,"result":{}}\n')
while opening.count(b"\n") < 2:  # the notification that follows the handshake
    opening += os.read(0, 1 << 16)
data = opening.split(b"\n", 2)[2]
while True:
    end = data.rfind(b"\n") + 1
    os.write(1, data[:end].replace(_CALL, _ANSWER))
    chunk = os.read(0, 1 << 16)
    if not chunk:
        break
    data = data[end:] + chunk
