//! Settings as scenario files: what the page runs, the command runs too.

use crate::setup::{Preset, ProtocolChoice, Setup};
use anyhow::{Context, Result};
use core::fmt::Write;
use wellspring_core::Seed;
use wellspring_experiments::scenario::{Plan, Scenario};
use wellspring_experiments::workload::{Population, Request, Requests};

/// Bytes of a full packet and of its header, where a protocol has others than SCDP.
const LTTP: &str = "header = 44\nblock_symbols = 256\ndecode = \"none\"\n";

/// A run as a scenario file, and read.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The file.
    pub text: String,
    /// What it says.
    pub scenario: Scenario,
}

/// The scenario of a protocol.
///
/// # Errors
/// The settings make no scenario.
pub fn build(setup: &Setup, protocol: ProtocolChoice) -> Result<Ready> {
    let base = text(setup, protocol, "");
    if setup.slow == 100 {
        return read(base);
    }
    // The workload chooses hosts by the seed: the slow link is at one of those.
    let plain = read(base)?;
    let Some((host, tor)) = far_end(&plain.scenario, setup.seed)? else { return Ok(plain) };
    let rate = (setup.rate * setup.slow).div_ceil(100);
    let link = format!(
        "[[topology.links]]\nbetween = [\"host{host}\", \"tor{tor}\"]\nrate = \"{rate}Mbit/s\"\n"
    );
    read(text(setup, protocol, &link))
}

fn read(text: String) -> Result<Ready> {
    let scenarios = Plan::parse(&text)?.scenarios()?;
    let scenario = scenarios.into_iter().next().context("a file makes one scenario")?;
    let graph = scenario.topology.build()?;
    for event in &scenario.events {
        event.fault(&graph)?;
    }
    Ok(Ready { text, scenario })
}

/// The sender, or the receiver of a write, of the first request; and its rack.
fn far_end(scenario: &Scenario, seed: u64) -> Result<Option<(u32, u32)>> {
    let tree = scenario.topology.fat_tree().context("the network is a tree")?;
    let population = Population::new(scenario, tree.hosts(), Seed(seed));
    let request = Requests::new(&scenario.workload, population, Seed(seed))?.next();
    let host = match request.map(|(_, request)| request) {
        Some(
            Request::Transfer { from, .. }
            | Request::Traced { from, .. }
            | Request::Timed { from, .. },
        ) => Some(from),
        Some(Request::Write { to, .. }) => to.first().copied(),
        Some(Request::Read { from, .. }) => from.first().copied(),
        None => None,
    };
    Ok(host.map(|host| (host, tree.rack(host))))
}

/// Pods, racks a pod, hosts a rack, aggregation switches a pod, core switches above each.
fn shape(setup: &Setup) -> [u64; 5] {
    match setup.preset {
        Preset::Incast => [1, 4, (setup.senders + 1).div_ceil(4), 2, 1],
        Preset::Fetch | Preset::Replicate => [1, 4, 2, 2, 1],
        Preset::Outcast => [4, 3, 4, 1, 3],
        Preset::Outage | Preset::Burst => [1, 2, 1, 1, 1],
    }
}

fn text(setup: &Setup, protocol: ProtocolChoice, links: &str) -> String {
    let mut text = format!("name = \"{}-{}\"\n", setup.preset.as_str(), protocol.as_str());
    text += &match setup.preset {
        Preset::Burst => long_link(setup, protocol),
        _ => in_racks(setup, protocol, links),
    };
    for event in &setup.events {
        let kind = if event.up { "node-up" } else { "node-down" };
        let _ = write!(
            text,
            "[[events]]\nat = \"{}ns\"\nkind = \"{kind}\"\nnodes = [\"{}\"]\n",
            event.at, event.node
        );
    }
    let _ = write!(text, "[run]\nseeds = [{}]\nlimit = \"20s\"\npatience = \"10s\"\n", setup.seed);
    text
}

fn long_link(setup: &Setup, protocol: ProtocolChoice) -> String {
    let Setup { size, buffer, rate, delay, .. } = setup;
    let loss = setup.loss as f64 / 100_000.0;
    let code = protocol.code().map(|code| format!("[appliances]\ncode = \"{code}\"\n"));
    format!(
        "[topology]\nkind = \"long-link\"\nrate = \"{rate}Mbit/s\"\ndelay = \"{delay}ns\"\n\
         data_loss = {loss:?}\ncontrol_loss = {loss:?}\n\
         [switch]\nbuffer_packets = {buffer}\n\
         [protocol]\nname = \"{}\"\n{}\
         [workload]\nkind = \"single\"\nfrom = 0\nto = 1\nsize = \"{size}B\"\n",
        protocol.protocol(),
        code.unwrap_or_default()
    )
}

fn in_racks(setup: &Setup, protocol: ProtocolChoice, links: &str) -> String {
    let Setup { senders, size, buffer, rate, delay, .. } = setup;
    let [pods, tors, hosts, aggs, cores] = shape(setup);
    // Racks' uplinks carry whatever their hosts send; in outcast they are what is scarce.
    let uplink = match setup.preset {
        Preset::Outcast => *rate,
        _ => rate * hosts.div_ceil(aggs),
    };
    let loss = setup.loss as f64 / 100_000.0;
    let mut text = format!(
        "[topology]\n\
         rate = \"{rate}Mbit/s\"\nuplink_rate = \"{uplink}Mbit/s\"\ndelay = \"{delay}ns\"\n\
         data_loss = {loss:?}\ncontrol_loss = {loss:?}\n\
         [topology.shape]\n\
         pods = {pods}\ntors_per_pod = {tors}\nhosts_per_tor = {hosts}\naggs_per_pod = {aggs}\ncores_per_agg = {cores}\n\
         {links}\
         [switch]\nbuffer_packets = {buffer}\n"
    );
    match protocol {
        ProtocolChoice::Dctcp => {
            let _ = writeln!(text, "mark_packets = {}", buffer.div_ceil(2));
        }
        ProtocolChoice::Lttp => text.push_str("overflow = \"drop\"\nspraying = \"flow\"\n"),
        _ => {}
    }
    let _ = writeln!(text, "[protocol]\nname = \"{}\"", protocol.as_str());
    if protocol == ProtocolChoice::Lttp {
        text.push_str(LTTP);
    }
    let storage = |writes: &str| {
        format!(
            "kind = \"storage\"\nsessions = 1\nlambda = 1e6\nsize = \"{size}B\"\nreplicas = {senders}\nwrites = {writes}\n\
             placement = \"outside-rack\"\nread_by = \"parts\"\n"
        )
    };
    text.push_str("[workload]\n");
    text.push_str(&match setup.preset {
        Preset::Incast => {
            format!("kind = \"incast\"\nsenders = {senders}\nsize = \"{size}B\"\njitter = \"10us\"\n")
        }
        Preset::Fetch => storage("0.0"),
        Preset::Replicate => storage("1.0"),
        Preset::Outcast => {
            format!("kind = \"outcast\"\nnear = 2\nfar = {senders}\nsize = \"{size}B\"\njitter = \"1us\"\n")
        }
        Preset::Outage | Preset::Burst => format!("kind = \"single\"\nfrom = 0\nto = 1\nsize = \"{size}B\"\n"),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_story_makes_a_scenario_for_every_protocol_at_both_ends_of_its_range() {
        for preset in Preset::ALL {
            for senders in [*preset.senders().start(), *preset.senders().end()] {
                for protocol in preset.protocols() {
                    let slow = *preset.slow().end() / 2;
                    let slow = if preset.slow().contains(&slow) { slow } else { 100 };
                    let setup = Setup { senders, slow, loss: 1_000, ..preset.setup() };
                    let ready = build(&setup, *protocol).unwrap();
                    assert_eq!(ready.scenario.topology.links.len(), usize::from(slow < 100));
                    assert_eq!(ready.scenario.topology.data_loss, 0.01);
                    assert_eq!(ready.scenario.protocol.name.as_str(), protocol.protocol());
                    assert_eq!(ready.scenario.appliances.is_some(), protocol.code().is_some());
                }
            }
        }
    }

    #[test]
    fn the_smallest_buffer_marks_too_and_lttp_keeps_a_path() {
        let setup = Setup::parse("buffer=2").unwrap();
        let dctcp = build(&setup, ProtocolChoice::Dctcp).unwrap().scenario.switch;
        assert_eq!((dctcp.buffer_packets, dctcp.mark_packets), (2, Some(1)));
        assert!(Setup::parse("buffer=1").is_err());
        let lttp = build(&setup, ProtocolChoice::Lttp).unwrap();
        assert!(lttp.text.contains("spraying = \"flow\""), "{}", lttp.text);
    }

    #[test]
    fn a_failure_of_a_node_that_is_not_there_is_refused() {
        let setup = Setup::parse("preset=fetch&fail=agg7@1").unwrap();
        let error = build(&setup, ProtocolChoice::Scdp).unwrap_err();
        assert!(format!("{error:#}").contains("agg7"), "{error:#}");
        let setup = Setup::parse("preset=burst&fail=host0@1").unwrap();
        let error = build(&setup, ProtocolChoice::Cubic).unwrap_err();
        assert!(format!("{error:#}").contains("relay"), "{error:#}");
    }
}
