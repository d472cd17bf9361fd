"""The real yt-dlp, run against the sample site as tasks run it."""

import os
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psutil
import pytest

from headgate import Headgate
from headgate.core.retry import ErrorClass, Fatal, classify
from headgate.packs.media import ytdlp
from headgate.packs.media.cookie_file import cookie_file, private_folder, sweep
from headgate.packs.media.errors import RiskControl, SiteError
from headgate.packs.media.policy import COLLECTION, FILE, ITEM, USER_AGENTS, Command, Request, RequestPolicy
from headgate.packs.media.sample_site import FILE_BYTES, PLUGINS, RETRY_AFTER, serving
from headgate.packs.media.settings import MediaSettings
from headgate.packs.media.ytdlp import run_ytdlp

CANARY = "canary-5f2e19c0"
COOKIES = (
    "# Netscape HTTP Cookie File\n"
    f"127.0.0.1\tFALSE\t/\tFALSE\t0\tmember\tyes\n127.0.0.1\tFALSE\t/\tFALSE\t0\tSESSDATA\t{CANARY}\n"
)
PATIENCE = 60.0
SETTINGS = MediaSettings(
    yt_dlp_plugin_dirs=str(PLUGINS), yt_dlp_sleep_requests=0, yt_dlp_retries=0, media_private_allow="127.0.0.1"
)
POLICY = RequestPolicy(SETTINGS)


@pytest.fixture
def site():
    with serving() as served:
        served.step_seconds = 0.2  # so that what is slow lasts until it is ended
        yield served


@pytest.fixture(autouse=True)
def cookies_folder(tmp_path, monkeypatch):
    """A folder for cookies that no other test sees."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return private_folder()


def records_of(command, kind, **options):
    found = []
    run_ytdlp(command, lambda of, record: found.append(record) if of == kind else None, **options)
    return found


def file_of(site, name):
    return Request(f"{site.address}/file/{name}.mp4")


def test_a_collection_of_999_is_counted_by_one_request_and_listed_by_ten(site):
    """Spec: C6"""
    request = Request(f"{site.address}/list/birds-999")
    assert records_of(POLICY.expected_total(request), COLLECTION)[0]["playlist_count"] == 999
    assert len(site.requests) == 1
    listed = records_of(POLICY.list_from(request, 0), ITEM)
    assert [record["id"] for record in listed] == [f"birds-999.{number}" for number in range(1, 1000)]
    assert len(site.requests) == 1 + 10


def test_a_list_that_goes_on_asks_only_for_what_is_missing(site):
    """Spec: C6"""
    listed = records_of(POLICY.list_from(Request(f"{site.address}/list/birds-250"), 230), ITEM)
    assert [record["playlist_index"] for record in listed] == list(range(231, 251))
    assert site.paths() == ["/list/birds-250?page=0", "/list/birds-250?page=2"]


@pytest.mark.parametrize(
    ("name", "status", "judged", "error"),
    [
        ("status-404-1.1", 404, ErrorClass.FATAL, SiteError),
        ("status-429-1.1", 429, ErrorClass.RETRYABLE, SiteError),
        ("status-412-1.1", 412, ErrorClass.RETRYABLE, RiskControl),
        ("members-1.1", 403, ErrorClass.FATAL, SiteError),
    ],
)
def test_what_the_site_answers_is_the_error_of_the_task(site, tmp_path, name, status, judged, error):
    """Spec: A5"""
    with pytest.raises(error) as caught:
        run_ytdlp(POLICY.download(file_of(site, name), str(tmp_path), None), lambda *_: None)
    assert (caught.value.status, classify(caught.value)) == (status, judged)
    assert caught.value.headers == ({"Retry-After": str(RETRY_AFTER)} if status == 429 else {})


def test_a_connection_that_is_cut_is_tried_again_and_continued(site, tmp_path):
    """Spec: A5, C7"""
    command = POLICY.download(file_of(site, "cut-1.1"), str(tmp_path), "key")
    with pytest.raises(ConnectionError) as caught:
        run_ytdlp(command, lambda *_: None)
    assert classify(caught.value) is ErrorClass.RETRYABLE
    [record] = records_of(command, FILE)
    assert os.path.getsize(record["filepath"]) == FILE_BYTES
    assert site.requests[-1].first_byte > 0


def test_a_cookie_opens_what_is_gated_and_shows_nowhere(site, tmp_path, cookies_folder, monkeypatch):
    """Spec: C9"""
    begun: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", watched(subprocess.Popen, begun, cookies_folder))
    command = POLICY.download(
        Request(f"{site.address}/file/members-1.1.mp4", requires_cookie=True), str(tmp_path), None
    )
    [record] = records_of(command, FILE, cookies=COOKIES)
    assert os.path.getsize(record["filepath"]) == FILE_BYTES
    assert all(CANARY in seen.cookie and seen.user_agent == USER_AGENTS["desktop"] for seen in site.requests)
    assert all(seen.referer == f"{site.address}/" for seen in site.requests)
    [(arguments, environment, modes)] = begun
    assert CANARY not in f"{arguments} {environment}"
    assert modes == [0o600]
    assert list(cookies_folder.iterdir()) == []


def watched(popen, begun, folder):
    """`Popen`, noting what each process was begun with and who may read the cookies meanwhile."""

    def start(arguments, **options):
        begun.append((arguments, options["env"], [path.stat().st_mode & 0o777 for path in folder.iterdir()]))
        return popen(arguments, **options)

    return start


def test_an_error_that_quotes_a_cookie_is_told_without_it(cookies_folder):
    """Spec: C9"""
    command = Command(("--ignore-config", "--", f"http://127.0.0.1:1/{CANARY}"), PATIENCE, SETTINGS.allowed)
    with pytest.raises(ConnectionError, match=r"127.0.0.1:1: Connect call failed|Connection refused") as caught:
        run_ytdlp(command, lambda *_: None, COOKIES)
    assert CANARY not in str(caught.value)
    assert list(cookies_folder.iterdir()) == []


def test_a_long_line_that_quotes_a_cookie_is_cut_in_no_part_of_it(tmp_path, monkeypatch):
    """Spec: C9"""
    script = tmp_path / "script.py"
    script.write_text(f"print('x' * {ytdlp.KEPT_CHARACTERS - 10} + {CANARY!r})\nraise SystemExit(1)")
    monkeypatch.setattr(ytdlp, "SCRIPT", script)
    with pytest.raises(SiteError) as caught:
        run_ytdlp(Command((), PATIENCE), lambda *_: None, COOKIES)
    assert CANARY[:6] not in str(caught.value)


def test_the_variables_of_headgate_do_not_reach_yt_dlp(site, tmp_path, monkeypatch, cookies_folder):
    """Spec: C9"""
    monkeypatch.setenv("HEADGATE_SECRET", CANARY)
    monkeypatch.setenv("HEADGATE_EXECUTION", "7")
    begun: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", watched(subprocess.Popen, begun, cookies_folder))
    with pytest.raises(SiteError):
        run_ytdlp(POLICY.parse(Request(f"{site.address}/nothing")), lambda *_: None)
    assert {name for name in begun[0][1] if name.startswith("HEADGATE_")} == {"HEADGATE_EXECUTION"}


def test_a_command_that_takes_too_long_is_ended_with_its_part_kept(site, tmp_path):
    """Spec: C3, C8"""
    command = POLICY.download(file_of(site, "slow-1.1"), str(tmp_path), None)
    before = set(psutil.Process().children(recursive=True))

    def first_bytes_came(kind, record):
        raise TimeoutError("enough")

    with pytest.raises(TimeoutError, match="enough"):
        run_ytdlp(command, first_bytes_came)
    with pytest.raises(TimeoutError, match=r"^yt-dlp ran for more than 0\.01 s$"):
        run_ytdlp(Command(command.arguments, 0.01), lambda *_: None)
    assert set(psutil.Process().children(recursive=True)) == before
    assert [path.suffix for path in tmp_path.glob("*[[]slow*")] == [".part"]


def test_yt_dlp_dies_with_whoever_started_it(site, tmp_path):
    """Spec: C3"""
    command = POLICY.download(file_of(site, "slow-1.1"), str(tmp_path), None)
    program = (
        "from headgate.packs.media.ytdlp import run_ytdlp; from headgate.packs.media.policy import Command\n"
        "from headgate.packs import Allowed\n"
        f"command = Command({command.arguments!r}, 60, Allowed.parse('127.0.0.1'))\n"
        "run_ytdlp(command, lambda *record: print(*record, flush=True))"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("progress")
        [child] = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGKILL)
    assert psutil.wait_procs([child], PATIENCE)[1] == []
    assert [path.suffix for path in tmp_path.glob("*[[]slow*")] == [".part"]  # it did not just come to its end


def test_cookies_of_a_process_that_was_killed_are_swept_at_the_next_start(tmp_path, cookies_folder):
    """Spec: C9"""
    program = (
        "from headgate.packs.media.cookie_file import cookie_file\nimport time\n"
        "with cookie_file('x') as path:\n    print(path, flush=True)\n    time.sleep(600)"
    )
    with (
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process,
        cookie_file("y"),
    ):
        assert process.stdout is not None
        left = process.stdout.readline().strip()
        sweep()
        assert len(list(cookies_folder.iterdir())) == 2  # both live
        process.kill()
        process.wait(PATIENCE)
        assert os.path.exists(left)
        program_with_pack = Headgate(f"sqlite:///{tmp_path}/store.db", packs=["media"])
        assert program_with_pack.store is not None
        program_with_pack.close()
        assert not os.path.exists(left)
        assert len(list(cookies_folder.iterdir())) == 1


def test_without_yt_dlp_it_is_said_what_to_install(monkeypatch):
    """Spec: A5"""
    monkeypatch.setitem(sys.modules, "yt_dlp", None)
    with pytest.raises(Fatal, match="pip install yt-dlp"):
        run_ytdlp(Command((), PATIENCE), lambda *_: None)


def test_a_folder_that_others_can_reach_is_no_place_for_cookies_and_stops_nobody(cookies_folder):
    """Spec: C9"""
    cookies_folder.chmod(0o755)
    sweep()
    with cookie_file("x") as file:
        assert file.parent != cookies_folder
        assert file.parent.stat().st_mode & 0o777 == 0o700
        with cookie_file("y") as second:
            assert second.parent == file.parent
        left = file.parent / "left.cookies"
        left.write_text("z")
        sweep()
        assert (file.exists(), left.exists()) == (True, False)


@pytest.fixture
def silent_place():
    """The address of a service that counts who connects."""
    came = []

    class Count(socketserver.BaseRequestHandler):
        def handle(self):
            came.append(self.client_address)

    with socketserver.TCPServer(("127.0.0.1", 0), Count) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}", came
        server.shutdown()
        thread.join()


@contextmanager
def answering(status, headers, body=b""):
    """The address of a site that gives everybody this answer."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_redirect_to_a_forbidden_address_is_not_followed(silent_place, tmp_path):
    """Spec: RELIABILITY T23"""
    place, came = silent_place
    with answering(302, {"Location": f"http://{place}/latest/meta-data"}) as here:
        policy = RequestPolicy(replace(SETTINGS, media_private_allow=here))
        with pytest.raises(Fatal, match=r"^127\.0\.0\.1 is this machine, which MEDIA_PRIVATE_ALLOW does not list"):
            run_ytdlp(policy.download(Request(f"http://{here}/film"), str(tmp_path), None), lambda *_: None)
    assert came == []


def test_what_only_ffmpeg_can_download_is_refused(tmp_path):
    """Spec: C9, RELIABILITY T23"""
    stream = b'#EXTM3U\n#EXT-X-KEY:METHOD=SAMPLE-AES,URI="key"\n#EXTINF:4,\nfirst.ts\n#EXT-X-ENDLIST\n'
    with answering(200, {"Content-Type": "application/vnd.apple.mpegurl"}, stream) as here:
        command = POLICY.download(Request(f"http://{here}/film.m3u8"), str(tmp_path), None)
        with pytest.raises(Fatal, match="only ffmpeg can download"):
            run_ytdlp(command, lambda *_: None)


PLUGIN_THAT_LEAVES = """
import pathlib, socket, subprocess
said = pathlib.Path({said!r}).open("a")
for leave in (
    lambda: socket.create_connection({place!r}),
    lambda: socket.socket().connect({place!r}),
    lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", {place!r}),
    lambda: socket.getaddrinfo("example.org", 80),
    lambda: subprocess.run(["curl", "http://%s:%s" % {place!r}]),
):
    try:
        leave()
    except OSError as error:
        said.write(type(error).__name__ + "\\n")
said.close()
"""


def test_yt_dlp_connects_to_its_proxy_only_whatever_is_loaded_into_it(site, silent_place, tmp_path):
    """Spec: RELIABILITY T23"""
    place, came = silent_place
    host, port = place.split(":")
    folder = tmp_path / "plugins" / "leaving" / "yt_dlp_plugins" / "extractor"
    folder.mkdir(parents=True)
    (folder / "leave.py").write_text(PLUGIN_THAT_LEAVES.format(said=str(tmp_path / "said"), place=(host, int(port))))
    both = os.pathsep.join([str(PLUGINS), str(tmp_path / "plugins")])
    policy = RequestPolicy(replace(SETTINGS, yt_dlp_plugin_dirs=both))
    assert records_of(policy.parse(Request(f"{site.address}/list/birds-2")), ITEM)
    assert (tmp_path / "said").read_text().split() == ["NotAllowed"] * 5
    assert came == []
