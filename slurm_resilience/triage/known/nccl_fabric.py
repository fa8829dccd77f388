"""What NCCL says of InfiniBand, of Ethernet with RDMA, and of EFA below it. Pure data."""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import Retry
from slurm_resilience.triage.known.writing import advice, cascade, root, wait

_IB = "NCCL 2.30, src/transport/net_ib"
_COMPLETION = r"Got completion from peer (?P<peer>\S{1,80}) with (?:status=(?:IBV_WC_\w{1,30}\()?|error )"
_FABRIC = "go on without that node; look at its link, its cable and the errors of its port"
_LOOK = "ibstat; perfquery -x; dmesg -T | grep mlx5"

NCCL_FABRIC = (
    wait(
        "nccl.ib-no-answer",
        "InfiniBand gave up on a peer: its link, or the peer, is gone",
        rf"{_COMPLETION}12\b",
        "Got completion from peer",
        Cause.NODE_FAILURE,
        _IB + "/p2p.cc",
        do="look at the links of this node and of the peer; a longer time-out survives a flap",
        retry=Retry.ELSEWHERE,
        command=_LOOK,
        setting="NCCL_IB_TIMEOUT=22",
    ),
    wait(
        "nccl.ib-not-ready",
        "a peer took nothing from InfiniBand: its process hangs, or is gone",
        rf"{_COMPLETION}13\b",
        "Got completion from peer",
        Cause.HUNG,
        _IB + "/p2p.cc",
        do="look at what that peer did at the time",
        retry=Retry.HELPS,
        setting="NCCL_IB_RETRY_CNT=7",
    ),
    cascade(
        "nccl.ib-flushed",
        "InfiniBand dropped what was under way, because its connection had failed before",
        rf"{_COMPLETION}5\b",
        "Got completion from peer",
        _IB + "/p2p.cc",
    ),
    root(
        "nccl.ib-access",
        "InfiniBand may not use memory that it was given",
        rf"{_COMPLETION}(?:4|10)\b",
        "Got completion from peer",
        Cause.CRASHED,
        _IB + "/p2p.cc",
        do="look for an Xid on both nodes; without one, try NCCL_NET_GDR_LEVEL=LOC, and tell the support",
        retry=Retry.UNKNOWN,
        setting="NCCL_NET_GDR_LEVEL=LOC",
    ),
    root(
        "nccl.ib-card-failed",
        "this node's InfiniBand card or port has failed",
        r"NET/IB : (?P<device>[\w.-]+:\d+) async fatal event|NET/IB: Fatal error\. Detected \d+ failed devices",
        ("async fatal event", "NET/IB: Fatal error"),
        Cause.NODE_FAILURE,
        _IB + "/common.cc",
        do=_FABRIC,
        retry=Retry.ELSEWHERE,
        command=_LOOK,
        avoid_node=True,
    ),
    wait(
        "nccl.ib-port-down",
        "this node's InfiniBand port went down",
        r"NET/IB : (?P<device>[\w.-]+:\d+) Got non-fatal async event: port error",
        "Got non-fatal async event",
        Cause.NODE_FAILURE,
        _IB + "/common.cc",
        do=_FABRIC,
        retry=Retry.ELSEWHERE,
        command=_LOOK,
        avoid_node=True,
    ),
    advice(
        "nccl.ib-event",
        "this node's InfiniBand port has changed its address or its state",
        r"NET/IB : (?P<device>[\w.-]+:\d+) Got (?:non-fatal )?async event",
        ("Got non-fatal async event", "Got async event"),
        _IB + "/common.cc",
        do="look at the port: on Ethernet, an address that changes ends its connections",
        command=_LOOK,
    ),
    root(
        "nccl.ib-memory-lock",
        "InfiniBand may not lock enough memory",
        r"Call to ibv_\w{1,30} failed with error Cannot allocate memory|Please set max locked memory \(ulimit "
        r"-l\) to 'unlimited'",
        ("Call to ibv_", "set max locked memory"),
        Cause.CRASHED,
        "NCCL 2.30, src/misc/ibvwrap.cc; UCX, src/uct/ib/base",
        do="have the limit of locked memory taken away: LimitMEMLOCK of slurmd, PropagateResourceLimitsExcept=MEMLOCK",
        retry=Retry.USELESS,
        command="ulimit -l",
        setting="ulimit -l unlimited",
    ),
    wait(
        "nccl.ib-connect",
        "InfiniBand could not connect to a peer in time",
        r"Call to ibv_modify_qp failed with (?:error )?(?:110 )?Connection timed out",
        "Call to ibv_",
        Cause.NODE_FAILURE,
        "NCCL 2.30, src/misc/ibvwrap.cc",
        do="see whether all cards of the job can reach one another: subnet, VLAN, routes of RoCE",
        retry=Retry.ELSEWHERE,
        setting="NCCL_IB_HCA, NCCL_IB_GID_INDEX",
    ),
    root(
        "nccl.ib-mixed-links",
        "NCCL was to connect InfiniBand with Ethernet",
        r"NET/IB : (?:Attempted to (?:connect|merge) incompatible devices|Remote \S{1,20} device is incompatible)",
        ("incompatible devices", "device is incompatible"),
        Cause.CRASHED,
        _IB + "/connect.cc",
        do="name the cards of one kind that all nodes have",
        retry=Retry.USELESS,
        command="ibv_devinfo | grep -e hca_id -e link_layer",
        setting="NCCL_IB_HCA",
    ),
    wait(
        "nccl.ofi-unreachable",
        "EFA or another fabric gave up on a peer",
        r"NET/OFI Request .{1,80}?completed with error\. RC: (?P<code>\d+)\. Error: (?P<why>.{1,80})",
        "completed with error. RC",
        Cause.NODE_FAILURE,
        "aws-ofi-nccl, src/nccl_ofi_rdma.cc",
        do="look at the peer that the line names: its host, its driver, its security group",
        retry=Retry.ELSEWHERE,
        command="fi_info -p efa",
    ),
)
