"""The one policy of requests, and the settings that it is made of: pure, so that nothing runs here."""

import re

import pytest

from headgate.core.errors import Invalid
from headgate.core.retry import Fatal
from headgate.pack import find_packs, read_settings
from headgate.packs.media.policy import USER_AGENTS, Request, RequestPolicy, file_key
from headgate.packs.media.settings import MediaSettings
from headgate.packs.media.types import TYPES

URL = "https://example.org/list/7?a=b"
[MEDIA] = find_packs(["media"])


def commands(settings, request):
    """What each of the four types asks yt-dlp for."""
    policy = RequestPolicy(settings)
    return {
        "expected_total": policy.expected_total(request),
        "parse": policy.parse(request),
        "list_fetch": policy.list_from(request, 300),
        "download": policy.download(request, "library/7", "a/b"),
    }


def value_of(command, option):
    return command.arguments[command.arguments.index(option) + 1]


def test_all_four_types_have_the_same_manners():
    """Spec: C7"""
    settings = MediaSettings(yt_dlp_retries=5, yt_dlp_sleep_requests=1.5, yt_dlp_extractor_args="a:b=c d:e=f;g=h")
    made = commands(settings, Request(URL, requires_cookie=True))
    shared = []
    for command in made.values():
        assert command.arguments[-2:] == ("--", URL)  # behind it nothing can be an option
        assert value_of(command, "--user-agent") == USER_AGENTS["desktop"]
        assert value_of(command, "--add-headers") == "Referer:https://example.org/"
        assert [value_of(command, name) for name in ("--retries", "--fragment-retries")] == ["5", "5"]
        assert value_of(command, "--sleep-requests") == "1.5"
        given = [command.arguments[at + 1] for at, word in enumerate(command.arguments) if word == "--extractor-args"]
        assert given == ["a:b=c", "d:e=f;g=h"]
        shared.append(command.arguments[: command.arguments.index("--socket-timeout") + 2])
    assert len(set(shared)) == 1


def test_with_a_cookie_there_is_one_browser_and_without_one_profiles_take_turns():
    """Spec: C7"""
    policy = RequestPolicy(MediaSettings(ua_profiles="desktop, alt"))
    with_cookie = {
        policy.user_agent(Request(URL, True, profile, turn)) for profile in (None, "mobile") for turn in range(4)
    }
    assert with_cookie == {USER_AGENTS["desktop"]}
    turns = [policy.user_agent(Request(URL, turn=turn)) for turn in range(4)]
    assert turns == [USER_AGENTS["desktop"], USER_AGENTS["alt"]] * 2
    assert policy.user_agent(Request(URL, ua_profile="mobile")) == USER_AGENTS["mobile"]


def test_each_command_has_the_time_that_its_variable_says():
    """Spec: C8"""
    made = commands(read_settings(MediaSettings, {}), Request(URL))
    assert {name: command.seconds for name, command in made.items()} == {
        "expected_total": 30, "parse": 60, "list_fetch": 120, "download": 1800,
    }  # fmt: skip
    variables = {
        "EXPECTED_TOTAL_TIMEOUT": "1", "META_CMD_TIMEOUT": "2", "LIST_FETCH_CMD_TIMEOUT": "3",
        "DOWNLOAD_CMD_TIMEOUT": "4.5",
    }  # fmt: skip
    made = commands(read_settings(MediaSettings, variables), Request(URL))
    assert [command.seconds for command in made.values()] == [1, 2, 3, 4.5]


@pytest.mark.parametrize("turn", [60, 300])
@pytest.mark.parametrize("command", [None, 7000])
def test_a_type_never_has_less_time_than_its_command_and_the_waits_for_its_turn(command, turn):
    """Spec: C8, A3"""
    named = ("EXPECTED_TOTAL_TIMEOUT", "META_CMD_TIMEOUT", "LIST_FETCH_CMD_TIMEOUT", "DOWNLOAD_CMD_TIMEOUT")
    variables = {"YT_DLP_TURN_SECONDS": str(turn)} | ({} if command is None else dict.fromkeys(named, str(command)))
    plain, tuned = (
        {kind.code: kind.timeout_seconds for kind in kinds} for kinds in (TYPES, MEDIA.tuned_types(variables))
    )
    for code, made in commands(read_settings(MediaSettings, variables), Request(URL)).items():
        waits = 2 if code == "download" else 1
        assert tuned.pop(code) == max(plain[code], made.seconds + waits * turn + 30)
    assert tuned == {"scan": 300, "associate": 120, "check": 60}


def test_the_built_in_times_hold_where_nothing_is_set():
    """Spec: A3"""
    known = {kind.code: kind.timeout_seconds for kind in MEDIA.tuned_types({})}
    assert known == {
        "expected_total": 120, "parse": 300, "list_fetch": 1800, "download": 1950,  # 1800 for its command
        "scan": 300, "associate": 120, "check": 60,
    }  # fmt: skip


def test_the_total_is_asked_for_without_reading_items_and_a_list_goes_on_where_it_was():
    """Spec: C6"""
    made = commands(MediaSettings(list_max_chunks=200), Request(URL))
    assert value_of(made["expected_total"], "--playlist-items") == "0"
    assert value_of(made["list_fetch"], "--playlist-items") == "301:20000"
    assert {"--flat-playlist", "--lazy-playlist"} < set(made["list_fetch"].arguments)
    assert {name for name, command in made.items() if "--simulate" not in command.arguments} == {"download"}


def test_the_name_of_a_file_holds_its_items_key_whatever_that_is():
    """Spec: C7"""
    assert value_of(commands(MediaSettings(), Request(URL))["download"], "--output").endswith(" [a%%2Fb].%(ext)s")
    assert file_key("../x") == "..%2Fx"
    assert len(file_key("長" * 100)) == 64


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "use an address that begins with https://"),
        ("ytsearch:cats", "use an address"),
        ("file:///etc/passwd", "use an address"),
        ("--exec=ls", "use an address"),
        ("http://", "use an address"),
        ("https:///x", "use an address"),
        ("https://example.org/" + "x" * 4096, "use an address"),
        ("https://a\nb", "remove spaces"),
        ("https://a/\u202eb", "remove spaces"),
        ("http://[x", "host must be a name or an address"),
        ("https://example.org\\@10.0.0.1/", "remove the user name"),
        ("https://user:pass@example.org/", "remove the user name and the password, and store a cookie"),
        ("https://example.org\\.evil/", "backslash"),
        ("http://127.0.0.1/", "127.0.0.1 is this machine, which MEDIA_PRIVATE_ALLOW does not list"),
        ("http://2130706433/", "is not an IPv4 address"),
        ("http://169.254.169.254/latest/meta-data", "a link of this machine"),
        ("http://[::ffff:10.0.0.1]/", "a private network"),
        ("https://example.org.:443/", "ends in a dot"),
        ("https://93.184.216.34:22/", "port 22 is none of 80, 443"),
    ],
)
def test_what_is_no_address_of_the_web_or_leads_where_nothing_may_go_is_refused(url, reason):
    """Spec: C7, RELIABILITY T23"""
    with pytest.raises(Fatal, match=f"^url: .*{re.escape(reason)}"):
        RequestPolicy(MediaSettings()).parse(Request(url))


def test_an_operator_says_which_private_addresses_yt_dlp_may_ask():
    """Spec: RELIABILITY T23"""
    policy = RequestPolicy(MediaSettings(media_private_allow="10.1.0.0/16, *:8443"))
    for url in ("http://10.1.2.3:81/x", "https://93.184.216.34:8443/", "https://example.org/ü?a=ä"):
        assert policy.parse(Request(url)).arguments[-1] == url
    with pytest.raises(Fatal, match="a private network"):
        policy.parse(Request("http://10.2.0.1/"))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("DOWNLOAD_CMD_TIMEOUT", "0", "above 0"),
        ("META_CMD_TIMEOUT", "inf", "above 0"),
        ("LIST_MAX_CHUNKS", "0", "at least 1"),
        ("LIST_MAX_CHUNKS", "many", "Expected `int`"),
        ("UA_PROFILES", "desktop,tablet", "list of: desktop, mobile, alt"),
        ("UA_PROFILES", ",", "list of"),
        ("COOKIE_FAILURE_LIMIT", "0", "at least 1"),
        ("YT_DLP_SLEEP_REQUESTS", "-1", "at least 0"),
        ("YT_DLP_TURN_SECONDS", "0", "above 0"),
        ("MEDIA_PRIVATE_ALLOW", "the office", "is not a network"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused_by_its_name(name, value, reason):
    """Spec: C8"""
    with pytest.raises(Invalid, match=f"^{name}.*{reason}"):
        read_settings(MediaSettings, {name: value})
