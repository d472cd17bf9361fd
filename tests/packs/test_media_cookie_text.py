"""What people paste as a cookie, and the file that is made of it."""

import http.cookiejar

import pytest

from headgate.core.errors import Invalid
from headgate.packs.media.cookie_text import check_site, netscape_file

EXPORTED = """# Netscape HTTP Cookie File
# https://example.org

.example.org\tTRUE\t/\tTRUE\t1999999999\tSESSDATA\tabc%2C1
#HttpOnly_www.example.org\tFALSE\t/\tTRUE\t0\tsid\tx=y
.elsewhere.net\tTRUE\t/\tFALSE\t0\ttracker\t1
"""


def names(text, tmp_path):
    """The cookies of the file, as Python's own reader of such files sees them."""
    file = tmp_path / "cookies.txt"
    file.write_text(text)
    jar = http.cookiejar.MozillaCookieJar(file)
    jar.load(ignore_discard=True, ignore_expires=True)
    return {(cookie.name, cookie.value, cookie.domain, cookie.secure) for cookie in jar}


def test_a_file_keeps_the_cookies_of_its_site_and_no_others(tmp_path):
    """Spec: C9"""
    assert names(netscape_file(EXPORTED, "example.org"), tmp_path) == {
        ("SESSDATA", "abc%2C1", ".example.org", True),
        ("sid", "x=y", "www.example.org", True),
    }


@pytest.mark.parametrize("text", ["SESSDATA=abc; bili_jct=d=e", " Cookie: SESSDATA=abc;bili_jct=d=e;\n"])
def test_a_header_becomes_a_file(tmp_path, text):
    """Spec: C9"""
    assert names(netscape_file(text, "example.org"), tmp_path) == {
        ("SESSDATA", "abc", ".example.org", True),
        ("bili_jct", "d=e", ".example.org", True),
    }


def test_a_header_for_this_machine_goes_without_tls(tmp_path):
    assert names(netscape_file("sid=1", "127.0.0.1"), tmp_path) == {("sid", "1", "127.0.0.1", False)}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("canary", "part 1 of the cookie is not NAME=VALUE"),
        ("good=1; canary", "part 2"),
        ("a b=canary", "part 1"),
        ("name=canary canary", "part 1"),
        ("<html>canary</html>", "part 1"),
        ('{"cookies": ["canary"]}', "part 1"),
        (".example.org\tTRUE\t/\tTRUE\t0\tcanary", "line 1 of the cookie file has 6 fields, not 7"),
        (".example.org\tYES\t/\tTRUE\t0\tname\tcanary", "line 1 of the cookie file is not in Netscape format"),
        (".example.org\tTRUE\t/\tTRUE\tsoon\tname\tcanary", "line 1 of the cookie file is not in Netscape format"),
        (".elsewhere.net\tTRUE\t/\tFALSE\t0\tcanary\t1", "has no cookie for example.org"),
        ("n=" + "canary" * 50_000, "larger than 256 KiB"),
    ],
)
def test_what_is_no_cookie_is_refused_and_not_repeated(text, reason):
    """Spec: C9"""
    with pytest.raises(Invalid) as refused:
        netscape_file(text, "example.org")
    assert reason in str(refused.value)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("site", ["", "com", "https://example.org", "example.org/x", "a b.org", "-x.org", "x" * 300])
def test_what_is_no_site_is_refused(site):
    with pytest.raises(Invalid, match="site: use the name of a host"):
        check_site(site)


@pytest.mark.parametrize("site", ["example.org", "127.0.0.1", "localhost", "::1"])
def test_a_host_is_a_site(site):
    assert check_site(f" {site.upper()} ") == site
