#!/usr/bin/env python3
"""A receiver of Headgate's callbacks in Python, with nothing but the standard library: verifies, de-duplicates, prints.

    AK=us SK=a-secret-of-24-characters python receiver.py 9000

Either signature is enough; this one wants both. Behind a proxy, path and Host must be those that were sent.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

AK, SK = os.environ.get("AK"), os.environ.get("SK")
if not AK or not SK or not sys.argv[-1].isdigit():
    print("usage: AK=… SK=… python receiver.py PORT", file=sys.stderr)
    sys.exit(2)
WINDOW_SECONDS = 300
seen = set()  # keep it with your own data, in the transaction that does what the callback asks for


def verify_webhook(headers, body):
    """Standard Webhooks: `v1,` and the HMAC of `id.timestamp.body`; several signatures are separated by spaces."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(SK.removeprefix("whsec_")) if SK.startswith("whsec_") else SK.encode()
    made = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    signatures = headers.get("webhook-signature", "").split(" ")
    return is_recent(headers["webhook-timestamp"]) and any(same(made, each) for each in signatures)


def verify_authorization(method, target, headers, body):
    """AK/SK: the scheme of Headgate's own API, eight lines."""
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    said = dict(part.strip().split("=", 1) for part in rest.split(",") if "=" in part)
    if scheme != "HEADGATE-HMAC-SHA256" or not {"access_key", "timestamp", "nonce", "signature"} <= said.keys():
        return False
    path, _, query = target.partition("?")
    pairs = sorted(filter(None, query.split("&")), key=lambda pair: pair.partition("=")[0])
    lines = [scheme, method, path, "&".join(pairs), headers["host"].lower(), hashlib.sha256(body).hexdigest(),
             said["timestamp"], said["nonce"]]  # fmt: skip
    made = hmac.new(SK.encode(), "\n".join(lines).encode(), "sha256").hexdigest()
    return same(AK, said["access_key"]) and is_recent(said["timestamp"]) and same(made, said["signature"])


def is_recent(timestamp):
    return timestamp.isdigit() and abs(time.time() - int(timestamp)) <= WINDOW_SECONDS


def same(one, other):
    return hmac.compare_digest(one.encode(), other.encode())


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        known = verify_webhook(self.headers, body) if "webhook-id" in self.headers else False
        if not known or not verify_authorization(self.command, self.path, self.headers, body):
            return self.answer(401)
        if self.headers["webhook-id"] not in seen:  # a repetition is answered like the first, and does nothing
            seen.add(self.headers["webhook-id"])
            print(json.dumps({"path": self.path, "told": json.loads(body)}), flush=True)
        return self.answer(204)

    def do_PUT(self):
        return self.do_POST()

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_): ...


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print(json.dumps({"port": server.server_port}), flush=True)
    server.serve_forever()
