"""Where a request may go: every form in which a forbidden address has been smuggled past somebody."""

from ipaddress import ip_address

import pytest

from headgate.core.errors import Invalid
from headgate.outward.address import Allowed, HttpTarget, parse_url

PUBLIC = (
    "93.184.216.34", "8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1",
    "169.253.255.255", "192.0.1.1", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8", "2001:4860:4860::8888",
)  # fmt: skip
FORBIDDEN = (
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255",
    "192.168.0.1", "169.254.169.254", "169.254.170.2", "100.64.0.1", "100.100.100.200", "100.127.255.255",
    "168.63.129.16", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1",
    "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::127.0.0.1",
    "2002:7f00:1::", "2002:808:808::", "2001::1", "2001:0:7f00:1::", "2001:db8::1", "2001:10::1", "3fff::1",
    "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "2606:4700::1111%eth0", "fec0::1", "ff02::1", "5f00::1",
    "100::1", "4000::1",
)  # fmt: skip
UNREADABLE = {
    "http://2130706433/": "four decimal numbers",
    "http://017700000001/": "four decimal numbers",
    "http://0x7f000001/": "four decimal numbers",
    "http://0x7F.1/": "four decimal numbers",
    "http://0177.0.0.1/": "four decimal numbers",
    "http://127.1/": "four decimal numbers",
    "http://127.0.1/": "four decimal numbers",
    "http://0/": "four decimal numbers",
    "http://127.0.0.0x1/": "four decimal numbers",
    "http://127.000.000.001/": "four decimal numbers",
    "http://example.0x/": "four decimal numbers",
    "http://999.1.1.1/": "four decimal numbers",
    "http://127.0.0.1./": "dot",
    "http://localhost./": "dot",
    "https://example.org../": "dot",
    "http://user@127.0.0.1/": "user name",
    "https://example.org@127.0.0.1/": "user name",
    "https://user:password@example.org/": "user name",
    "https://@example.org/": "user name",
    "http://ⓛocalhost/": "xn--",
    "http://１２７.０.０.１/": "xn--",
    "http://127。0。0。1/": "xn--",
    "http://bücher.example/": "xn--",
    "http://exa\u00admple.org/": "xn--",
    "http://127.0.0.1\\@example.org/": "backslash",
    "http:\\\\127.0.0.1/": "backslash",
    "http://example.org/\r\nHost: 127.0.0.1": "space",
    "http://example.org/ HTTP/1.1": "space",
    "http://exa\tmple.org/": "space",
    "http://example.org/\x00": "space",
    "http://127.0.0.1%2f@example.org/": "user name",
    "http://127%2e0%2e0%2e1/": "not a",
    "http://exa%6dple.org/": "not a",
    "http://-example.org/": "not a",
    "http://exa mple/": "space",
    "http://exa,mple.org/": "not a",
    "http://.example.org/": "not a",
    "http://example..org/": "not a",
    "http://*/": "not a",
    "http://[::1/": "name or an address",
    "http://::1/": "name or an address",
    "http://[::1]x/": "name or an address",
    "http://[fe80::1%25eth0]/": "name or an address",
    "http://[::ffff:127.0.0.1.]/": "IPv6",
    "http://[1:2:3]/": "IPv6",
    "http://example.org:0/": "port",
    "http://example.org:65536/": "port",
    "http://example.org:-1/": "name or an address",
    "http://example.org:/": "name or an address",
    "http://example.org:80:80/": "name or an address",
    "http:///path": "name or an address",
    "http:127.0.0.1/": "must begin with",
    "http:/127.0.0.1/": "must begin with",
    "//127.0.0.1/": "must begin with",
    "file:///etc/passwd": "must begin with",
    "ftp://example.org/": "must begin with",
    "gopher://127.0.0.1:6379/_SET%20a%201": "must begin with",
    "javascript:alert(1)": "must begin with",
    "unix:///run/docker.sock": "must begin with",
    "https+unix://%2Frun/": "must begin with",
    "": "must begin with",
    "https://" + "a" * 2048: "2048",
    "https://" + "a." * 127 + "org/": "not a",
}
READ = {
    "https://example.org": HttpTarget("https", "example.org", 443, "/"),
    "HTTPS://Example.ORG:443/A?b=C#d": HttpTarget("https", "example.org", 443, "/A?b=C"),
    "http://example.org?a=@b": HttpTarget("http", "example.org", 80, "/?a=@b"),
    "https://xn--bcher-kva.example/%C3%BC": HttpTarget("https", "xn--bcher-kva.example", 443, "/%C3%BC"),
    "https://a_b.example:8443/x": HttpTarget("https", "a_b.example", 8443, "/x"),
    "http://8.8.8.8/": HttpTarget("http", "8.8.8.8", 80, "/"),
    "http://[2606:4700:0::1111]:80/": HttpTarget("http", "2606:4700::1111", 80, "/"),
    "http://[::FFFF:127.0.0.1]/": HttpTarget("http", "::ffff:7f00:1", 80, "/"),
    "http://example.org/#@127.0.0.1/": HttpTarget("http", "example.org", 80, "/"),
    "http://4.example/": HttpTarget("http", "4.example", 80, "/"),
}


@pytest.mark.parametrize("text", FORBIDDEN)
def test_an_address_inside_is_refused_in_every_form(text):
    """Spec: B6, RELIABILITY T23"""
    assert Allowed().refusal(ip_address(text), 443) is not None


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_not(text):
    """Spec: B6"""
    assert Allowed().refusal(ip_address(text), 443) is None


@pytest.mark.parametrize(("url", "reason"), UNREADABLE.items())
def test_a_url_that_two_readers_could_read_differently_is_refused(url, reason):
    """Spec: B6, RELIABILITY T23"""
    with pytest.raises(Invalid, match=reason):
        parse_url(url)


@pytest.mark.parametrize(("url", "target"), READ.items())
def test_a_plain_url_is_read(url, target):
    """Spec: B6"""
    assert parse_url(url) == target


def test_the_host_header_has_the_port_only_where_it_says_something():
    """Spec: B6"""
    assert parse_url("https://example.org:443/").authority == "example.org"
    assert parse_url("https://example.org:80/").authority == "example.org:80"
    assert parse_url("http://[2606:4700::1]:8080/").authority == "[2606:4700::1]:8080"


@pytest.mark.parametrize(
    ("allow", "address", "port", "open_"),
    [
        ("", "8.8.8.8", 443, True),
        ("", "8.8.8.8", 80, True),
        ("", "8.8.8.8", 8443, False),
        ("*:8443", "8.8.8.8", 8443, True),
        ("*:8443", "10.0.0.1", 8443, False),
        ("10.0.0.0/8", "10.1.2.3", 9000, True),
        ("10.0.0.0/8", "11.1.2.3", 9000, False),
        ("10.0.0.0/8", "192.168.0.1", 443, False),
        ("10.0.0.0/8", "::ffff:10.1.2.3", 9000, True),
        ("10.0.0.0/8", "64:ff9b::10.1.2.3", 443, False),
        ("10.0.0.0/8:9000", "10.1.2.3", 9000, True),
        ("10.0.0.0/8:9000", "10.1.2.3", 443, False),
        ("10.1.2.3, 127.0.0.1:9000", "127.0.0.1", 9000, True),
        ("10.1.2.3, 127.0.0.1:9000", "127.0.0.2", 9000, False),
        ("fd00::/8", "fd12::1", 443, True),
        ("fd00::/8", "fe80::1", 443, False),
        ("[fd00::/8]:9000", "fd12::1", 9000, True),
        ("[fd00::/8]:9000", "fd12::1", 9001, False),
    ],
)
def test_an_operator_opens_exactly_what_is_listed(allow, address, port, open_):
    """Spec: B6"""
    assert (Allowed.parse(allow).refusal(ip_address(address), port) is None) is open_


@pytest.mark.parametrize("allow", ["example.org", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/8:0", "*", "*:99999", "a:1"])
def test_a_list_that_cannot_be_read_is_refused(allow):
    """Spec: B6"""
    with pytest.raises(Invalid, match="callback_allow"):
        Allowed.parse(allow)
