//! Faults of a run, and when they come.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use wellspring_core::RandomStream;

use super::network::Weather;
use super::world::World;
use crate::virtual_disk::Faults;

impl World {
    /// Time on the way and no faults.
    pub(crate) fn fair_weather(&self) -> Weather {
        let (delay, jitter) = self.plan.delay;
        Weather { delay, jitter, queue: 4_096, ..Weather::default() }
    }

    fn weather(&self, rng: &mut RandomStream) -> Weather {
        let mut weather = self.fair_weather();
        if self.plan.kinds.network {
            weather.loss = [0.0, 0.001, 0.02, 0.2][rng.below(4) as usize];
            weather.twice = [0.0, 0.0, 0.02, 0.3][rng.below(4) as usize];
            weather.overtaken = [0.0, 0.0, 0.05, 0.5][rng.below(4) as usize];
            weather.queue = [4_096, 4_096, 40, 8][rng.below(4) as usize];
        }
        if self.plan.kinds.deaths {
            weather.unreachable = [0.0, 0.5, 1.0][rng.below(3) as usize];
        }
        if self.plan.kinds.damage {
            weather.damage = [0.0, 0.001, 0.01, 0.1][rng.below(4) as usize];
        }
        weather
    }

    /// Lets things go wrong until the time of faults is over. Then network and disks work.
    pub(crate) async fn go_wrong(&self, mut rng: RandomStream) {
        self.network.set_weather(self.weather(&mut rng));
        loop {
            let long = rng.chance(0.3);
            let pause = rng.below(if long { 10_000 } else { 300 });
            let next = Instant::now() + Duration::from_millis(pause);
            sleep_until(next.min(self.faults_end)).await;
            if next >= self.faults_end {
                break;
            }
            self.one_fault(&mut rng);
        }
        self.network.set_weather(self.fair_weather());
        self.network.heal();
        for site in self.sites() {
            site.disk.set_faults(Faults::default());
            site.disk.end_power_after(u64::MAX);
        }
    }

    fn one_fault(&self, rng: &mut RandomStream) {
        let host = &self.hosts[rng.below(self.hosts.len() as u64) as usize];
        let site = if rng.chance(0.3) { &self.client } else { &host.site };
        let calls = if rng.chance(0.2) { 0 } else { rng.below(60) };
        match rng.below(8) {
            0 if self.plan.kinds.network => self.cut_off(rng),
            1 => self.network.set_weather(self.weather(rng)),
            2 | 3 if self.plan.kinds.deaths => site.kill_after(calls),
            4 if self.plan.kinds.deaths => site.disk.end_power_after(calls),
            5 | 6 if self.plan.kinds.disks => site.disk.set_faults(disk_faults(rng)),
            _ => {}
        }
    }

    /// Cuts some of the servers off, in one direction or in both.
    fn cut_off(&self, rng: &mut RandomStream) {
        let most = self.faults_end.saturating_duration_since(Instant::now()).as_millis() as u64;
        let longest = [500, 5_000, 60_000][rng.below(3) as usize];
        let span = rng.below(longest).min(most);
        let span = Duration::from_millis(span);
        let all = rng.chance(0.5);
        let directions = 1 + rng.below(3);
        let one = rng.below(self.hosts.len() as u64) as usize;
        for (number, host) in self.hosts.iter().enumerate() {
            if all || number == one {
                if directions & 1 != 0 {
                    self.network.cut(self.client.ip, host.site.ip, span);
                }
                if directions & 2 != 0 {
                    self.network.cut(host.site.ip, self.client.ip, span);
                }
            }
        }
        self.count(|counters| counters.cuts += 1);
    }

    /// Starts all servers again, so that none dies any more.
    pub(crate) async fn restart(&self) {
        for host in &self.hosts {
            host.site.kill_after(0);
        }
        sleep(Duration::from_millis(1)).await;
        while !self.hosts.iter().all(|host| host.is_up()) {
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn disk_faults(rng: &mut RandomStream) -> Faults {
    let none = Faults::default();
    match rng.below(4) {
        0 => Faults { sync: 0.3, ..none },
        1 => Faults { write: 0.05, full: 0.5, ..none },
        2 => Faults { call: 0.02, write: 0.02, sync: 0.05, name: 0.1, full: 0.2, ..none },
        _ => none,
    }
}
