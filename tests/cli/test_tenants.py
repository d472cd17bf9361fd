"""`headgate tenants`: weights, seen and changed."""


def test_a_weight_is_set_and_shown(run, anywhere):
    """Spec: A4, X12"""
    assert run("tenants", "set", "7", "--weight", "2.5").out == "tenant 7: weight 2.5\n"
    assert run("tenants").out.splitlines()[-1].split() == ["7", "2.5"]
    assert run("tenants", "--json").lines == [{"id": 7, "weight": 2.5}]
    assert run("tenants", "set", "7", "--weight", "1").out == "tenant 7: weight 1\n"
    assert anywhere.tenants.all() == []


def test_a_weight_out_of_bounds_is_refused_with_the_bounds(run, anywhere):
    """Spec: X12"""
    refused = run("tenants", "set", "7", "--weight", "0")
    assert (refused.code, "between 0.01 and 1000" in refused.err) == (2, True)
    assert anywhere.tenants.all() == []
