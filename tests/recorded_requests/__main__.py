"""Record a stack's responses, or compare two recordings."""

import argparse
import json
import sys
import time
from pathlib import Path

from tests.recorded_requests import script
from tests.recorded_requests.comparison import differences
from tests.recorded_requests.player import Player


def main() -> int:
    """Run the command line and return the exit status: 1 if recordings differ."""
    parser = argparse.ArgumentParser(prog="recorded_requests", description=__doc__)
    below = parser.add_subparsers(dest="action", required=True)
    recording = below.add_parser("record", help="play the script against a fresh stack")
    recording.add_argument("--base-url", required=True)
    recording.add_argument("--output", type=Path, required=True)
    recording.add_argument("--checkout", type=Path, default=Path.cwd(), help="the code, with its .venv")
    recording.add_argument("--data-dir", type=Path, required=True, help="the stack's DATA_DIR")
    recording.add_argument("--openapi", type=Path, help="where /openapi.json is kept as it came")
    recording.add_argument("--only", nargs="*", help="play these chapters alone, while the script is written")
    comparing = below.add_parser("compare", help="show where two recordings differ")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.action == "record":
        return _record(given)
    found = list(differences(*(json.loads(path.read_text("utf-8")) for path in (given.before, given.after))))
    print("\n".join(found) if found else "No differences.")
    return 1 if found else 0


def _record(given: argparse.Namespace) -> int:
    began = time.monotonic()
    player = Player(given.base_url, given.checkout.resolve(), given.data_dir.resolve())
    try:
        script.play(player, openapi=given.openapi, only=given.only)
    finally:
        given.output.write_text(json.dumps(player.entries, indent=1, ensure_ascii=False) + "\n", "utf-8")
    asked = sum("method" in entry for entry in player.entries)
    ran = sum("command" in entry for entry in player.entries)
    print(f"{asked} requests and {ran} commands in {time.monotonic() - began:.0f} s: {given.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
