"""What has gone wrong, at a glance."""

from headgate.core.error_groups import ErrorGroup, grouped


def test_those_that_died_of_the_same_are_one_group_whatever_their_numbers():
    """Spec: D12"""
    rows = [
        ("invoice", "ValueError: invoice 1001 has no address\n  at line 7", 2),
        ("charge", "ConnectionError: refused", 2),
        ("invoice", "ValueError: invoice 1002 has no address\n  at line 7", 1),
    ]
    assert grouped(rows) == [
        ErrorGroup("invoice", "ValueError: invoice … has no address", "ValueError: invoice", 3),
        ErrorGroup("charge", "ConnectionError: refused", "ConnectionError: refused", 2),
    ]


def test_one_without_an_error_is_known():
    """Spec: D12"""
    assert grouped([("x", None, 1)]) == [ErrorGroup("x", "", "", 1)]


def test_of_a_traceback_alone_the_last_line_counts_and_its_modules_do_not():
    """Spec: D12"""
    text = 'Traceback (most recent call last):\n  File "x.py", line 3\nshop.errors.Declined: card 42\n'
    assert grouped([("pay", text, 1)]) == [ErrorGroup("pay", "Declined: card …", "Declined: card", 1)]


def test_what_differs_is_a_number_an_address_or_an_id():
    """Spec: D12"""
    text = "lost 0x7f3a at 10.0.0.1:80, 123e4567-e89b-12d3-a456-426614174000"
    assert grouped([("x", text, 1)])[0].error == "lost … at … …"
