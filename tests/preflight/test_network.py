"""The round of connections between real network namespaces, with a real firewall and a real slow line."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from slurm_resilience.preflight.result import Outcome
from slurm_resilience.preflight.rounds.tcp import Tcp
from tests.preflight.network import Network, why_impossible
from tests.unit.preflight.rounds.playing import card, play

pytestmark = pytest.mark.skipif(bool(why := why_impossible()), reason=why)

NODES = ["n1", "n2", "n3"]
PORTS = (15001, 40001)
GOING_FIRST = ("nice", "-n", "-20")
"""Speeds are compared here: those of the lines, not of a machine that is busy with something else."""
ECHO = """
import socketserver, sys, threading
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        try:
            while data := self.request.recv(65536):
                self.request.sendall(data)
        except OSError:
            pass
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
servers = [Server(("", int(port)), Echo) for port in sys.argv[1:]]
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""
PART = """
import json, sys
from slurm_resilience.preflight.check import Context
from slurm_resilience.preflight.rounds.connecting import connect
print(json.dumps(connect(Context(sys.argv[1], {}), json.loads(sys.argv[2]), lambda _: None)))
"""


@pytest.fixture
def network():
    with Network(NODES) as made:
        servers = [
            subprocess.Popen(
                ["ip", "netns", "exec", made.namespace(node), *GOING_FIRST, sys.executable, "-c", ECHO]
                + [str(port) for port in PORTS],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for node in NODES
        ]
        try:
            for server in servers:
                assert server.stdout is not None
                assert server.stdout.readline() == b"ready\n"
            yield made
        finally:
            for server in servers:
                server.kill()
                server.communicate()


def look(network):
    cards = {
        number: card(number, host=f"no-such-{node}.invalid", addresses=(network.address(node),), ports=PORTS)
        for number, node in enumerate(NODES)
    }
    given = Tcp().assignments(cards)

    def part(number):
        node = NODES[number]
        return json.loads(network.run(node, *GOING_FIRST, sys.executable, "-c", PART, node, json.dumps(given[number])))

    with ThreadPoolExecutor(len(NODES)) as pool:
        said = dict(zip(given, pool.map(part, given), strict=True))
    return play(Tcp(), cards, instead=lambda task, *_: said[task])


def test_an_open_network_is_fine(network):
    assert look(network).bad == {}


def test_a_firewall_that_drops_on_one_node_names_it_and_the_port(network):
    network.drop("n2", ports="15001")
    played = look(network)
    assert list(played.bad) == ["n2"]
    assert "n1 and n3 can't connect to port 15001 of n2 (10.231.7.2): no answer: a firewall drops" in played.bad["n2"]


def test_a_slow_line_names_its_node(network):
    network.slow("n2", "1mbit")
    played = look(network)
    assert list(played.bad) == ["n2"]
    assert [result.node for result in played.of(Outcome.WARN)] == ["n2"]


def test_a_line_on_which_large_packets_vanish_names_its_node(network):
    network.narrow("n2", 1000)
    played = look(network)
    assert list(played.bad) == ["n2"]
    assert "small packets pass, large ones don't" in played.bad["n2"]
