"""Settings: file, .env, environment, flags; the later one wins, and a slip of the hand is named."""

from pathlib import Path

import pytest

from headgate import Headgate
from headgate.core.errors import Invalid
from headgate.settings import Settings, broker_urls, load


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def test_without_a_word_the_defaults_hold(folder):
    """Spec: X6"""
    assert load(folder=folder, environment={}) == Settings()
    assert Settings().url == "sqlite:///headgate.db"


def test_each_place_goes_before_the_one_behind_it(folder):
    """Spec: X6"""
    found = [load(folder=folder, environment={}).poll_seconds]
    (folder / "headgate.toml").write_text("poll_seconds = 1\nlease_seconds = 60.5\n")
    found.append(load(folder=folder, environment={}).poll_seconds)
    (folder / ".env").write_text("HEADGATE_POLL_SECONDS=2\n")
    found.append(load(folder=folder, environment={}).poll_seconds)
    environment = {"HEADGATE_POLL_SECONDS": "3", "HOME": "/", "HEADGATE_SOMETHING_ELSE": "x"}
    found.append(load(folder=folder, environment=environment).poll_seconds)
    found.append(load({"poll_seconds": None}, folder=folder, environment=environment).poll_seconds)
    last = load({"poll_seconds": 4}, folder=folder, environment=environment)
    assert [*found, last.poll_seconds] == [2, 1, 2, 3, 3, 4]
    assert last.lease_seconds == 60.5


def test_a_program_reads_the_environment_and_the_folder_it_is_in(folder, monkeypatch):
    """Spec: X6"""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HEADGATE_URL", "sqlite:///from-environment.db")
    (folder / "headgate.toml").write_text("poll_seconds = 1\n")
    assert Headgate()._settings == Settings(url="sqlite:///from-environment.db", poll_seconds=1)
    assert Headgate("sqlite:///said.db")._settings.url == "sqlite:///said.db"


def test_an_empty_variable_is_none(folder):
    """Spec: X6"""
    (folder / ".env").write_text("HEADGATE_URL=postgresql://a/b\n")
    assert load(folder=folder, environment={"HEADGATE_URL": ""}).url == "postgresql://a/b"


def test_dotenv_is_read_as_people_write_it(folder):
    """Spec: X6"""
    (folder / ".env").write_text(
        "# a comment\n"
        "OTHER=1\n\n"
        "  export HEADGATE_URL = 'postgresql://u:p#q@host/db?a=b'   # where\n"
        'HEADGATE_TIMEZONE="Asia/Shanghai"\n'
        "HEADGATE_POLL_SECONDS=2.5 # often\n"
        "#HEADGATE_LEASE_SECONDS=1\n"
        "no sign\n"
    )
    assert load(folder=folder, environment={}) == Settings(
        url="postgresql://u:p#q@host/db?a=b", timezone="Asia/Shanghai", poll_seconds=2.5
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("headgate.toml", "pol_seconds = 1", r"headgate.toml: no setting 'pol_seconds'; did you mean 'poll_seconds'\?"),
        ("headgate.toml", "colour = 1", "headgate.toml: no setting 'colour'$"),
        ("headgate.toml", "poll_seconds = ", "headgate.toml: Invalid value"),
        ("headgate.toml", "poll_seconds = '\udcff'", "headgate.toml: 'utf-8' codec"),
        (".env", "HEADGATE_POLL_SECONDS='\udcff'", ".env: 'utf-8' codec"),
        (".env", "HEADGATE_POL_SECONDS=1", r"no setting HEADGATE_POL_SECONDS; did you mean HEADGATE_POLL_SECONDS\?"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(folder, name, text, message):
    """Spec: X6"""
    (folder / name).write_text(text, errors="surrogateescape")
    with pytest.raises(Invalid, match=message):
        load(folder=folder, environment={})


def test_a_name_that_is_none_is_refused_with_the_near_one(folder):
    """Spec: X6"""
    with pytest.raises(Invalid, match="no setting HEADGATE_LEASE_SECOND; did you mean HEADGATE_LEASE_SECONDS"):
        load(folder=folder, environment={"HEADGATE_LEASE_SECOND": "1"})
    with pytest.raises(Invalid, match="flags: no setting 'urls'; did you mean 'url'"):
        load({"urls": "x"}, folder=folder, environment={})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("lease_seconds", "soon", r"lease_seconds \(HEADGATE_LEASE_SECONDS\): Expected `float`, got `str`"),
        ("lease_seconds", "9", "beat_seconds must be above 0 and below lease_seconds"),
        ("beat_seconds", "0", "beat_seconds must be above 0"),
        ("beat_seconds", "nan", "beat_seconds must be a finite number"),
        ("lease_seconds", "inf", "lease_seconds must be a finite number"),
        ("reap_seconds", "0", "reap_seconds must be above 0"),
        ("poll_seconds", "-1", "poll_seconds must be above 0"),
        ("mutex_seconds", "0", "mutex_seconds must be above 0"),
        ("shutdown_seconds", "-0.1", "shutdown_seconds must be at least 0"),
        ("retention_succeeded_days", "-1", "retention_succeeded_days must be at least 0"),
        ("retention_failed_days", "-1", "retention_failed_days must be at least 0"),
        ("retention_hour", "24", "retention_hour must be between 0 and 23"),
        ("retention_hour", "2.5", r"HEADGATE_RETENTION_HOUR\): Expected `int`, got `(str|float)`"),
        ("timezone", "Mars/Olympus", "timezone: no time zone 'Mars/Olympus'"),
        ("timezone", "../etc/passwd", "timezone: no time zone"),
    ],
)
def test_a_bad_value_is_refused_by_name(folder, name, value, message):
    """Spec: X6"""
    with pytest.raises(Invalid, match=message):
        load(folder=folder, environment={f"HEADGATE_{name.upper()}": value})


@pytest.mark.parametrize(
    "url",
    [
        "http://rabbit",
        "rabbit:5672",
        "amqp://",
        "amqp://:secret-word@",
        "amqp://a:secret-word@b:x",
        "amqp://u:secret-word@one,two",
        "amqp://one,amqp://u:secret-word@",
        "amqp://u:secret-word@one/,http://two",
        "amqp://u:secret-word@one/,",
    ],
)
def test_what_is_no_broker_is_refused_without_being_repeated(folder, url):
    """Spec: D1, X6"""
    with pytest.raises(Invalid, match="use amqp://USER:PASSWORD@HOST:PORT/VHOST") as refused:
        load(folder=folder, environment={"HEADGATE_BROKER": url})
    assert "secret-word" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("heartbeat=x", "heartbeat must be a number of seconds from 0 to 65535"),
        ("heartbeat=-5", "heartbeat must be"),
        ("heartbeat=70000", "heartbeat must be"),
        ("cafile=/no/such/ca.pem", r"there is no file '/no/such/ca.pem' \(cafile\)"),
    ],
)
def test_options_of_a_broker_that_cannot_be_used_are_refused_by_name(folder, options, message):
    """Spec: D1, X6"""
    with pytest.raises(Invalid, match=message) as refused:
        load(folder=folder, environment={"HEADGATE_BROKER": f"amqps://u:secret-word@one/?{options}"})
    assert "secret-word" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "amqp://rabbit",
        "amqp://u:secret-word@rabbit:5673/vhost",
        "amqps://[::1]/%2F",
        "amqp://u:secret,word@one/,amqps://u:secret-word@two:5673/",
    ],
)
def test_a_broker_is_named_by_its_url_which_no_settings_show(folder, url):
    """Spec: D1, X6"""
    found = load(folder=folder, environment={"HEADGATE_BROKER": url})
    assert found.broker == url
    assert url not in repr(found)


def test_the_nodes_of_a_cluster_are_named_by_urls_with_commas_between():
    """Spec: D1"""
    urls = ["amqp://u:a,b@one:5672/vhost", "amqps://two", "amqp://[::1]/%2F"]
    assert broker_urls(",".join(urls)) == broker_urls(" , ".join(urls)) == urls
    assert broker_urls("") == []


@pytest.mark.parametrize(
    "setting", ["broker_consumers=0", "broker_consumers=11", "broker_prefetch=-1", "broker_resend_seconds=0"]
)
def test_figures_of_the_broker_have_bounds(folder, setting):
    """Spec: D2, X6"""
    name, _, value = setting.partition("=")
    with pytest.raises(Invalid, match=name):
        load(folder=folder, environment={f"HEADGATE_{name.upper()}": value})
