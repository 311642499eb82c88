"""The command line: flags in, answers out; whatever is computed is computed below, in a function that Python has too.

A command reads its flags, calls that function with a ``Progress``, and prints what comes back: ``to_json()`` of the
result with ``--json``, else a table or lines. ``main`` holds the table of commands and imports a module when its
command is called, so that ``polyseme --help`` imports neither NumPy nor torch.

| module | commands |
|---|---|
| text | corpus, info |
| train, tasks | train, methods; fit, predict, score |
| words | neighbours, analogy, distil |
| encode, generate | encode, similarity; fill, follows, generate, translate |
| evaluate | evaluate, compare, dimension |
| uses, concordance, search | index, uses; concordance; search |
| convert, plot, demo, serve | the same |

``flags`` makes options of dataclasses into flags and holds those that several commands share, ``tables`` prints results
(JSON, tables, CSV, words in context), ``terminal`` keeps control characters off the screen and shows progress. Every
error a person can cause is a ``PolysemeError``, of which ``main.main`` prints one line. Read ``main``, then ``text``.
"""
