"""Bring a store's schema up to date: python -m headgate.store [--plan] [--schema NAME] [URL]"""

import argparse
import os

from headgate.store.store import open_store


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m headgate.store", description=__doc__)
    parser.add_argument("url", nargs="?", default=os.environ.get("HEADGATE_URL", "sqlite:///headgate.db"))
    parser.add_argument("--schema", default=os.environ.get("HEADGATE_SCHEMA", ""), help="the PostgreSQL schema to use")
    parser.add_argument("--plan", action="store_true", help="show what would be done, and do nothing")
    chosen = parser.parse_args()
    with open_store(chosen.url, schema=chosen.schema) as store:
        steps = store.migration_plan() if chosen.plan else store.migrate()
    for step in steps:
        print(f"{'would apply' if chosen.plan else 'applied'} {step.name}")
        if chosen.plan:
            print(step.text)
    if not steps:
        print("up to date")


if __name__ == "__main__":
    main()
