"""The slice of ``make galera`` in ``make test``: one test only, as each process of pytest starts its own cluster."""

from __future__ import annotations

from lcc.storage.queue.write_transaction import claim_run

from .kit import Place, counter, node_of


def test_a_killed_node_is_left_for_the_next(place: Place) -> None:
    first, second, third = place.cluster.nodes
    database = place.open(first, second, third, retries=100)
    assert [database.write(claim_run), database.interact(node_of)] == [1, "node1"]
    first.kill()
    assert database.write(claim_run) == 2
    assert database.interact(node_of) == "node2"
    first.start_again()
    # It stays there, and a new one begins with the first again.  Each sees all.
    assert database.write(claim_run) == 3 and database.interact(node_of) == "node2"
    other = place.open(first, second, third)
    assert other.write(claim_run) == 4 and other.interact(node_of) == "node1"
    assert place.open(third).interact(counter, "qm_run") == 4
