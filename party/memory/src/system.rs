//! How much memory there is.

use std::fs;

/// Bytes of memory that this process may still take without any other being moved out, where the system tells: what is available on
/// the machine, or what the group of processes that it belongs to has left of its limit, whichever is less.
pub fn available() -> Option<usize> {
    let machine = in_machine(&fs::read_to_string("/proc/meminfo").ok()?)?;
    Some(in_groups().into_iter().fold(machine, usize::min))
}

fn in_machine(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// What control groups of both versions have left; nothing where there is none or it has no limit.
fn in_groups() -> Vec<usize> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (kind, path) = (parts.next()?, parts.next()?);
        let (root, limit, usage, files) = match kind {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current", ["inactive_file ", "active_file "]),
            kind if kind.split(',').any(|one| one == "memory") => {
                let files = ["total_inactive_file ", "total_active_file "];
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", files)
            }
            _ => return None,
        };
        // In a container the group's own folder is the root of what is seen.
        [format!("{root}{path}"), root.to_string()].iter().find_map(|folder| {
            let read = |name: &str| fs::read_to_string(format!("{folder}/{name}")).ok();
            left(&read(limit)?, &read(usage)?, &read("memory.stat").unwrap_or_default(), files)
        })
    };
    groups.lines().filter_map(of).collect()
}

/// What a group has left: pages of files give way.
fn left(limit: &str, usage: &str, statistics: &str, files: [&str; 2]) -> Option<usize> {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let of = |name: &str| statistics.lines().find_map(|line| number(line.strip_prefix(name)?)).unwrap_or(0);
    let pages = of(files[0]).saturating_add(of(files[1]));
    Some(number(limit)?.saturating_sub(number(usage)?.saturating_sub(pages)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_what_is_available() {
        let text = "MemTotal:       24000000 kB\nMemFree:  100 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(in_machine(text), Some(23_000_000 * 1024));
        assert_eq!(in_machine("MemTotal: 1 kB\n"), None);
        assert_eq!(in_machine("MemAvailable: many kB\n"), None);
    }

    #[test]
    fn a_group_has_left_what_is_not_used_or_gives_way() {
        let files = ["inactive_file ", "active_file "];
        let statistics = "anon 5\ninactive_file 150\nactive_file 20\ninactive_anon 7\n";
        assert_eq!(left("1000\n", "600\n", statistics, files), Some(570));
        assert_eq!(left("1000\n", "1200\n", "", files), Some(0));
        assert_eq!(left("max\n", "600\n", statistics, files), None);
    }
}
