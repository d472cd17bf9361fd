"""`headgate keys`: made, shown once, listed, ended."""

import re

import pytest

from headgate.core.keys import digest_of, parse_key

KEY = re.compile(r"hg_1_[0-9a-f]{56}")


def test_a_key_is_made_and_shown_once(run, anywhere):
    """Spec: B11"""
    made = run("keys", "create", "ops", "--role", "admin")
    assert made.code == 0
    [text] = KEY.findall(made.out)
    assert "not shown again" in made.err
    read = parse_key(text)
    assert read is not None
    key_id, secret = read
    key = anywhere.keys.get(key_id)
    assert (key.name, key.tenant_id, key.digest) == ("ops", None, digest_of(secret))
    listed = run("keys", "list").out + run("keys").out + run("keys", "list", "--json").out
    assert secret.hex() not in listed
    assert listed.count("ops") == 3


def test_with_a_secret_of_the_servers_there_is_a_secret_key_to_sign_with(run, anywhere, monkeypatch):
    """Spec: B11"""
    assert "secret_key" not in run("keys", "create", "a", "--role", "read", "--json").json
    monkeypatch.setenv("HEADGATE_SECRET", "what the server keeps to itself")
    made = run("keys", "create", "b", "--role", "read", "--json").json
    assert made["access_key"] == "hg_2"
    assert re.fullmatch("[0-9a-f]{64}", made["secret_key"])
    assert f"secret key  {'x' * 64}" in re.sub(
        "[0-9a-f]{64}", "x" * 64, run("keys", "create", "c", "--role", "read").out
    )


def test_keys_are_listed_with_what_became_of_them(run, anywhere):
    """Spec: B11"""
    run("keys", "create", "ops", "--role", "admin")
    run("keys", "create", "ci", "--role", "submit", "--tenant", "7", "--days", "90")
    assert run("keys", "revoke", "1").out == "key 1 (ops) revoked\n"
    assert run("keys", "revoke", "1", "--json").json["revoked_at"] is not None
    _, ci, ops = run("keys").out.splitlines()
    assert re.match(r" ?2  ci    submit +7  active   20.*Z  20.*Z  never", ci)
    assert re.match(r" ?1  ops   admin +all  revoked ", ops)
    assert [key["role"] for key in run("keys", "list", "--json").lines] == ["submit", "admin"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["create", "x", "--role", "king"], 2),
        (["create", "x"], 2),
        (["create", "", "--role", "read"], 2),
        (["create", "x", "--role", "read", "--days", "0"], 2),
        (["create", "x", "--role", "read", "--days", "nan"], 2),
        (["create", "x", "--role", "read", "--tenant", str(2**63)], 2),
        (["revoke", "99"], 3),
    ],
)
def test_what_cannot_be_meant_is_refused_and_no_key_is_made(run, anywhere, words, code):
    """Spec: B11"""
    answer = run("keys", *words)
    assert answer.code == code
    assert anywhere.keys.find() == []


def test_with_the_first_key_one_is_told_that_everybody_needs_one_now(here, run):
    """Spec: B11"""
    assert "every request needs a key" in run("keys", "create", "one", "--role", "read").err
    assert "every request needs a key" not in run("keys", "create", "two", "--role", "read").err
