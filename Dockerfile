# The image of all production processes: web processes (the default command), workers and commands.
#   sync web process:    the default
#   gevent web process:  WORKER_CLASS=gevent and the default
#   a worker:            python -m tasks.worker QUEUE
#   migrations:          marketplace db upgrade
# All settings are environment variables. The image contains no secrets.

FROM python:3.11-slim AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/venv
ENV PATH="/opt/venv/bin:$PATH"

# Dependencies rarely change: this layer is rebuilt only after a change of the lock file.
# REQUIREMENTS=tracing adds the packages for traces.
ARG REQUIREMENTS=production
COPY requirements/production.txt requirements/tracing.txt /build/requirements/
RUN pip install --require-hashes -r /build/requirements/${REQUIREMENTS}.txt

WORKDIR /build
COPY setup.cfg pyproject.toml wsgi.py /build/
COPY blueprints /build/blueprints
COPY commands /build/commands
COPY marketplace /build/marketplace
COPY migrations /build/migrations
COPY tasks /build/tasks
RUN pip install --no-deps --no-build-isolation .


FROM python:3.11-slim

ARG BUILD_REVISION=unknown
ENV PATH="/opt/venv/bin:$PATH" \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    ENVIRONMENT=production \
    BUILD_REVISION=$BUILD_REVISION \
    WEB_BIND=0.0.0.0:8000

RUN groupadd --gid 10001 marketplace && useradd --uid 10001 --gid 10001 --no-create-home marketplace
COPY --from=build /opt/venv /opt/venv
WORKDIR /srv/marketplace
COPY gunicorn.conf.py /srv/marketplace/

# A numeric user, so that Kubernetes can verify runAsNonRoot.
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health/live', timeout=2)"]
CMD ["gunicorn", "-c", "gunicorn.conf.py", "wsgi:app"]
