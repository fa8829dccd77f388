"""What the Linux kernel says of a node's network: links, cards, bonds, tables. Pure data."""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import Retry
from slurm_resilience.triage.known.writing import advice, root, wait

_MLX5 = "Linux, drivers/net/ethernet/mellanox/mlx5/core, wording as in gpud's tests"
_CABLE = "go on without that node, and have its cable and its switch port checked"
_CARD = r"mlx5_core (?P<device>[\da-f:.]+)"

NETWORK = (
    wait(
        "kernel.link-down",
        "a network link of a node went down",
        r"(?:mlx5_core|bnxt_en|i40e|ice|ixgbe|tg3|mlx4_en|igb|ena|be2net) (?P<device>\S{1,30})(?: \S{1,30})?: "
        r"(?:\S{1,30}: )?"
        r"(?:NIC )?Link (?:is )?[Dd]own",
        ("Link down", "Link is Down", "Link Down", "Link is down"),
        Cause.NODE_FAILURE,
        _MLX5,
        do=_CABLE,
        retry=Retry.ELSEWHERE,
        command="ip -s link; ibstat",
        avoid_node=True,
    ),
    wait(
        "kernel.bond-link-down",
        "a node's bond has lost one of its links",
        r"\(slave (?P<device>[\w.-]+)\): link status definitely down|bond\d+: now running without any active interface",
        ("link status definitely down", "without any active interface"),
        Cause.NODE_FAILURE,
        "Linux, drivers/net/bonding/bond_main.c",
        do=_CABLE,
        retry=Retry.ELSEWHERE,
        command="cat /proc/net/bonding/*",
    ),
    root(
        "kernel.card-failed",
        "a network card of a node has failed",
        rf"{_CARD}(?: \S{{1,30}})?: .{{0,60}}(?:Fatal error (?:\d+ )?detected|health compromised|health "
        rf"recovery flow aborted)",
        "mlx5_core ",
        Cause.NODE_FAILURE,
        "Linux, drivers/net/ethernet/mellanox/mlx5/core/health.c",
        do="go on without that node, and have its network card looked at",
        retry=Retry.ELSEWHERE,
        command="dmesg -T | grep mlx5",
        avoid_node=True,
    ),
    root(
        "kernel.card-hot",
        "a network module of a node is too hot, or its cable is bad",
        rf"{_CARD}(?: \S{{1,30}})?: Port module event\[error\]: module \d+, Cable error, (?P<why>.{{1,60}})",
        "Port module event[error]",
        Cause.NODE_FAILURE,
        _MLX5,
        do=_CABLE,
        retry=Retry.ELSEWHERE,
        command="mlxlink -d DEVICE -m",
        avoid_node=True,
    ),
    root(
        "kernel.card-hung",
        "a network card of a node sends nothing any more",
        r"NETDEV WATCHDOG: (?:CPU: \d+: )?(?P<device>[\w.-]+)(?: \([^)]{1,40}\))?: transmit queue \d+ timed out",
        "NETDEV WATCHDOG",
        Cause.NODE_FAILURE,
        "Linux, net/sched/sch_generic.c",
        do="go on without that node, and have its network card looked at",
        retry=Retry.ELSEWHERE,
        command="ip -s link show DEVICE",
        avoid_node=True,
    ),
    root(
        "kernel.neighbours-full",
        "the node can't remember more addresses of others: its table is too small for this cluster",
        r"neighbou?r(?:: \w+)?:? (?:arp_cache: neighbor )?table overflow",
        "table overflow",
        Cause.CRASHED,
        "Linux, net/core/neighbour.c",
        do="have the limits of the address table raised on every node",
        retry=Retry.USELESS,
        command="ip neigh | wc -l",
        setting="net.ipv4.neigh.default.gc_thresh3",
    ),
    root(
        "kernel.connections-full",
        "the node's firewall drops packets, because it can't follow more connections",
        r"nf_conntrack: (?:nf_conntrack: )?table full, dropping packet",
        "table full, dropping packet",
        Cause.CRASHED,
        "Linux, net/netfilter/nf_conntrack_core.c",
        do="have the limit raised, or the firewall leave the traffic between the nodes alone",
        retry=Retry.USELESS,
        command="sysctl net.netfilter.nf_conntrack_count",
        setting="net.netfilter.nf_conntrack_max",
    ),
    advice(
        "kernel.card-power",
        "a network card finds less power than it would like; most often harmless",
        r"Detected insufficient power on the PCIe slot",
        "insufficient power on the PCIe",
        _MLX5,
    ),
    advice(
        "kernel.card-half-speed",
        "a network card sits in a slot that is slower than the card",
        r"available PCIe bandwidth, limited by",
        "available PCIe bandwidth",
        "Linux, drivers/pci/pci.c",
        do="have the card moved to a wider slot: it can't reach its speed there",
        command="lspci -vv | grep -i lnksta",
    ),
    advice(
        "kernel.card-register-refused",
        "a network card refused a question of a monitoring program",
        r"ACCESS_REG\(0x[\da-f]+\) .{0,40}failed",
        "ACCESS_REG(0x",
        _MLX5,
    ),
)
