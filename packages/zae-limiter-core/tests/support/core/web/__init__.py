"""Applications of each framework with the same paths, and the servers that serve them.

| path | what it does |
|---|---|
| `/answer` | answers `{"user": ...}` |
| `/stream` | sends three parts; settles 30 tokens after the last |
| `/endless` | sends parts until the client leaves; settles 7 tokens then |
| `/gone` | waits until the client has left, then gives up (ASGI only) |
| `/late` | consumes a token, works for a while before it answers, settles 7 tokens however it ends (ASGI only) |
| `/fail` | raises |
| `/broken` | answers 500 itself |
| `/more` | consumes more tokens than there are |
| `/missing` | answers 404 |
| `/balance` | the user's tokens; costs nothing |

The header `x-user` names the user. Whoever is `away` meets a limiter whose store does not answer.
"""
