//! The shape of three-tier Fat-Trees.

/// The shape of a Fat-Tree: pods of ToR (edge) and aggregation switches, every ToR linked to
/// every aggregation switch of its pod, and core switches, each linked to one aggregation switch
/// of every pod.
///
/// Hosts are numbered through ToRs and pods; switches: ToRs, aggregation switches, cores. Ports:
/// downward first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FatTree {
    /// Pods.
    pub pods: u32,
    /// ToR switches a pod.
    pub tors_per_pod: u32,
    /// Hosts a ToR switch.
    pub hosts_per_tor: u32,
    /// Aggregation switches a pod: uplinks of a ToR.
    pub aggs_per_pod: u32,
    /// Core switches above an aggregation switch: its uplinks.
    pub cores_per_agg: u32,
}

impl FatTree {
    /// The k-ary Fat-Tree: k^3/4 hosts, full bisection bandwidth. `k` counts as even.
    pub const fn k_ary(k: u32) -> Self {
        let half = k / 2;
        FatTree {
            pods: k,
            tors_per_pod: half,
            hosts_per_tor: half,
            aggs_per_pod: half,
            cores_per_agg: half,
        }
    }

    /// The SCDP paper's (§V): 250 servers, 50 ToRs, 50 aggregation and 25 core switches.
    pub const PAPER: FatTree = FatTree::k_ary(10);

    /// Number of hosts.
    pub const fn hosts(&self) -> u32 {
        self.pods * self.tors_per_pod * self.hosts_per_tor
    }

    /// Number of ToR switches.
    pub const fn tors(&self) -> u32 {
        self.pods * self.tors_per_pod
    }

    /// Number of aggregation switches.
    pub const fn aggs(&self) -> u32 {
        self.pods * self.aggs_per_pod
    }

    /// Number of core switches.
    pub const fn cores(&self) -> u32 {
        self.aggs_per_pod * self.cores_per_agg
    }

    /// Equal-cost paths between hosts of different pods.
    pub const fn paths(&self) -> u32 {
        self.cores()
    }

    /// The rack (ToR) of a host.
    pub const fn rack(&self, host: u32) -> u32 {
        host / self.hosts_per_tor
    }

    /// The pod of a host.
    pub const fn pod(&self, host: u32) -> u32 {
        self.rack(host) / self.tors_per_pod
    }
}
