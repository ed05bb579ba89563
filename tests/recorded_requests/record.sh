#!/bin/sh
# Record what the service answers: start a fresh stack of a checkout, play all requests, stop the stack.
# Usage: tests/recorded_requests/record.sh CHECKOUT OUTPUT.json OPENAPI.json [PORT]
# CHECKOUT has been set up by `make`; it may be this one or an older commit.
set -eu
PROJECT=$(realpath "$(dirname "$0")/../..")
CHECKOUT=$(realpath "$1"); OUTPUT=$(realpath -m "$2"); OPENAPI=$(realpath -m "$3"); PORT=${4:-8300}
DATA_DIR=$(mktemp -d)
export PORT DATA_DIR RATE_LIMIT_SCALE=20
cd "$CHECKOUT"
.venv/bin/python -m sandbox.stack up >"$DATA_DIR/stack.log" 2>&1 &
STACK=$!
trap 'kill -TERM $STACK 2>/dev/null; wait $STACK 2>/dev/null || true; rm -rf "$DATA_DIR"' EXIT
for _ in $(seq 300); do
    curl -sf "http://127.0.0.1:$PORT/health/ready" >/dev/null && [ -f "$DATA_DIR/stack.env" ] && break
    sleep 1
done
PYTHONPATH="$PROJECT" .venv/bin/python -B -m tests.recorded_requests record --base-url "http://127.0.0.1:$PORT" \
    --data-dir "$DATA_DIR" --checkout "$CHECKOUT" --output "$OUTPUT" --openapi "$OPENAPI"
