//! Processor time and memory of processes.

/// CPU time a process has used so far, in user and kernel mode \[s\]; `None` for our own process.
pub fn cpu_seconds(process: Option<u32>) -> Option<f64> {
    let name = process.map_or("self".to_owned(), |id| id.to_string());
    let stat = std::fs::read_to_string(format!("/proc/{name}/stat")).ok()?;
    // The second field may hold blanks and parentheses; the ones that follow do not.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The most memory our own process has had in use \[bytes\].
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim_end().parse().ok()?;
    Some(kib * 1_024)
}
