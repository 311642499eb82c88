"""The HTTP API and the page. ``app.create_app`` makes the application, ``run.serve`` listens with it."""
