"""The HTTP API and the page: models, indexes and corpora on one's own machine, or behind a token for others. 网页与接口

A request goes through these in order, and its answer the other way round:

    limits.BoundedProtocol       one connection: how long a head, how slow a client
    guard.Guard                  Host, Origin, token, body; security headers, large answers in pieces
    middleware.FrequentQueries   neighbours and analogy, without the framework
    app.create_app               FastAPI: the route, its query or body checked against a shape of ``shapes``
    routes.*                     finds the thing in the ``library.Library`` and asks its worker
    batch.Batcher, batch.Worker  one thread for each model; questions that come together are one call
    responses.JsonAnswer         JSON; every error is one line with a status

| route | module |
|---|---|
| /api/words, neighbours, analogy, graph, map | routes.words |
| /api/encode/*, tokens, /v1/embeddings, /v1/models | routes.encode |
| /api/senses, same-sense, uses; concordance, collocates, sentences, sentence; texts/search | routes.search |
| /api/predict, attention | routes.tasks |
| /api/library, the page's files | app |

Nothing is computed here: what routes answer with is ``to_json()`` of results of words, search, tasks and view. A server
of word vectors never imports torch. Read ``listen.serve`` first (how it starts), then ``app``, then ``routes.words``.
"""
