"""The hook for more workers: stores the requested number for each queue, which the stack reads."""

from pathlib import Path

from flask import Flask, Response, request

from marketplace.kernel import queues
from sandbox.providers import fields

MAXIMUM_BODY_BYTES = 1_000
MAXIMUM_WORKERS = 2
SCALE_FOLDER = "scale"


def read_requests(folder: Path) -> dict[str, int]:
    """Return the requested number of workers by queue. Queues without a request are missing."""
    found = {}
    for queue in queues.NAMES:
        path = folder / queue
        if path.exists():
            found[queue] = int(path.read_text(encoding="utf-8"))
    return found


def create_app(folder: Path) -> Flask:
    """Create the hook's application.

    :param folder: has a file with the number for each queue
    """
    app = Flask("sandbox.providers.scale", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAXIMUM_BODY_BYTES

    @app.errorhandler(fields.InvalidFieldError)
    def answer_invalid(error: fields.InvalidFieldError) -> tuple[str, int]:
        """Name the wrong member."""
        return str(error), 400

    @app.post("/workers")
    def request_workers() -> Response:
        """Store a request."""
        body = fields.json_object(request)
        queue = fields.text(body, "queue")
        if queue not in queues.NAMES:
            raise fields.InvalidFieldError("queue", f"queue must be one of {', '.join(queues.NAMES)}")
        workers = body.get("workers")
        if not isinstance(workers, int) or not 1 <= workers <= MAXIMUM_WORKERS:
            raise fields.InvalidFieldError("workers", f"workers must be 1 to {MAXIMUM_WORKERS}")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        written = folder / f"{queue}.new"
        written.write_text(str(workers), encoding="utf-8")
        written.replace(folder / queue)
        return Response("ok\n", mimetype="text/plain")

    return app
