"""Signatures, against vectors made by other hands and against the standard's own verifier."""

import base64
import hashlib
import hmac

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from headgate.core.signing import SCHEME, SignedRequest, authorization, sign, webhook_key, webhook_signature
from headgate.environment import utc_now

SK = "a secret key of some length"
BODY = b'{"ext":{},"result":1}'


def test_a_request_is_signed_over_its_eight_lines():
    """Spec: B6, B11"""
    request = SignedRequest("PUT", "/told/us", "b=2&a=1&a=0", "Example.org:8443", BODY)
    lines = "\n".join(
        ["HEADGATE-HMAC-SHA256", "PUT", "/told/us", "a=1&a=0&b=2", "example.org:8443", hashlib.sha256(BODY).hexdigest(),
         "1767225600", "0123456789abcdef"]
    )  # fmt: skip
    expected = hmac.new(SK.encode(), lines.encode(), "sha256").hexdigest()
    assert sign(SK, request, 1767225600, "0123456789abcdef") == expected
    assert authorization("us", SK, request, 1767225600, "0123456789abcdef") == (
        f"{SCHEME} access_key=us, timestamp=1767225600, nonce=0123456789abcdef, signature={expected}"
    )


def test_the_standards_own_example_is_signed_alike():
    """The vector in the specification's text. Spec: B6"""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105
    body = b'{"test": 2432232314}'
    made = webhook_signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("secret", ["whsec_" + base64.b64encode(b"x" * 32).decode(), SK, "whsec_not base64!"])
def test_the_standards_verifier_agrees_and_refuses_what_was_changed(secret):
    """Spec: B6"""
    at = int(utc_now().timestamp())
    verifier = Webhook(webhook_key(secret))
    headers = {
        "webhook-id": "msg_1", "webhook-timestamp": str(at),
        "webhook-signature": webhook_signature(secret, "msg_1", at, BODY),
    }  # fmt: skip
    assert verifier.verify(BODY, headers) == {"ext": {}, "result": 1}
    for changed in ({"webhook-id": "msg_2"}, {"webhook-timestamp": str(at + 1)}):
        with pytest.raises(WebhookVerificationError):
            verifier.verify(BODY, headers | changed)
    with pytest.raises(WebhookVerificationError):
        verifier.verify(BODY + b" ", headers)
