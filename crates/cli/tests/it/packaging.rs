//! Units, options, dashboards and alert rules of packaging/: accepted by systemd and by the server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use wellspring_appliance::switch::{CaptureStatus, PortCounters, SwitchStatus, to_prometheus};

use crate::lab;
use crate::operation::http;
use crate::support::{Place, program, text};

fn packaging(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(packaging(path)).expect(path)
}

#[test]
fn systemd_accepts_the_unit_of_a_server_and_finds_it_closed() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        lab::skip("`systemd-analyze` is missing");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("wellspring-serve.service");
    // The program is where the package puts it, which is not here.
    let unit = read("systemd/wellspring-serve.service");
    let unit = unit.replace("/usr/local/bin/wellspring", env!("CARGO_BIN_EXE_wellspring"));
    std::fs::write(&path, unit).expect("written");
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        let output = command.args(arguments).arg(&path).output().expect("run");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (good, said) = analyze(&["verify", "--man=no"]);
    assert!(good && !said.contains("wellspring-serve"), "{said}");
    // In tenths: what systemd calls OK begins at 5.
    let (good, said) = analyze(&["security", "--offline=yes", "--threshold=20"]);
    assert!(good, "{said}");
}

#[test]
fn the_options_of_the_service_are_options_of_the_server() {
    let output = program()
        .args(["serve", "--print-config", "--config"])
        .arg(packaging("systemd/serve.toml"))
        .output()
        .expect("runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(printed.contains("dir = \"/var/lib/wellspring\"  # file"), "{printed}");
    // Those in comments, too: keys, or none.
    for who in ["keys", "insecure"] {
        let all = [who, "bind", "rate", "allow-put"]
            .iter()
            .fold(read("systemd/serve.toml"), |text, option| {
                text.replace(&format!("# {option}"), option)
            });
        assert!(all.contains("\nallow-put") && all.contains(&format!("\n{who}")), "{all}");
        let place = Place::new();
        let file = place.path("all.toml");
        std::fs::write(&file, all).expect("written");
        let output = program().args(["serve", "--print-config", "--config"]).arg(&file).output();
        assert!(output.as_ref().expect("runs").status.success(), "{output:?}");
    }
}

#[test]
fn the_image_leaves_its_settings_to_a_file_and_is_loaded_by_either_manifest() {
    let image = packaging("oci/image.py");
    let run = |arguments: &[&str]| {
        let output = Command::new("python3").arg(&image).args(arguments).output().expect("runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let place = Place::new();
    let (out, root, binary) = (place.path("layout"), place.dir("root"), place.path("binary"));
    std::fs::write(&binary, "not a program").expect("written");
    let arch = |name: &str| format!("{name}={}", text(&binary));
    run(&[text(&out), "1.2.3", &arch("amd64"), &arch("arm64")]);
    let config = run(&["--unpack", text(&out), "arm64", text(&root)]);
    let config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    // They would come before a file that is mounted.
    assert_eq!(config["Env"], serde_json::json!(["PATH=/usr/bin"]));
    let mut command = program();
    command.args(["serve", "--print-config", "--config"]);
    let output = command.arg(root.join("etc/wellspring/wellspring.toml")).output().expect("runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("dir = \"/var/lib/wellspring\"  # file"), "{output:?}");
    assert!(printed.contains("cache = \"/var/cache/wellspring\"  # file"), "{printed}");
    let json = |name: &str| -> serde_json::Value {
        let text = std::fs::read_to_string(out.join(name)).expect(name);
        serde_json::from_str(&text).expect("JSON")
    };
    let images = json("manifest.json");
    assert_eq!(
        images[0]["RepoTags"],
        serde_json::json!(["wellspring:1.2.3-amd64", "wellspring:1.2.3"])
    );
    assert_eq!(images[1]["RepoTags"], serde_json::json!(["wellspring:1.2.3-arm64"]));
    for image in images.as_array().expect("a list") {
        for blob in [&image["Config"], &image["Layers"][0]] {
            assert!(out.join(blob.as_str().expect("a path")).is_file(), "{image}");
        }
    }
    let name = &json("index.json")["manifests"][0]["annotations"]["io.containerd.image.name"];
    assert_eq!(name, "docker.io/library/wellspring:1.2.3");
}

/// A root that is read-only has no room for listings and packs but there.
#[test]
fn containers_that_are_read_only_have_a_place_for_temporary_files() {
    assert!(read("kubernetes/daemonset.yaml").contains("mountPath: /tmp"));
    assert!(read("compose/compose.yaml").contains("tmpfs: [\"/tmp"));
}

#[test]
fn dashboards_and_alerts_name_metrics_that_there_are() {
    let place = Place::new();
    let keys = place.path("keys");
    let made = program().args(["key", "new", "--cluster", "--keys"]).arg(&keys).output();
    assert!(made.as_ref().expect("runs").status.success(), "{made:?}");
    let keys = keys.to_str().expect("UTF-8");
    let metrics = ["--metrics", "127.0.0.1:0", "--keys", keys];
    let server = place.serve(&place.replica("a", b"x"), &metrics);
    let (_, page) = http(&server, "GET /metrics");
    let known = families(&page);
    for path in ["prometheus/alerts.yml", "grafana/wellspring.json"] {
        let text = read(path);
        let named = metrics_in(&text);
        assert!(named.len() > 5, "{path}: {named:?}");
        for name in named {
            let family = name.strip_suffix("_total").unwrap_or(name);
            assert!(known.contains(family), "{path}: no metric {name}");
        }
    }
}

#[test]
fn the_switchs_dashboard_and_alerts_name_metrics_that_there_are() {
    let ports = vec![("port1".to_owned(), PortCounters::default())];
    let (snooping, capture) = (Some(Default::default()), Some(CaptureStatus::default()));
    let page =
        to_prometheus(&SwitchStatus { ports, data_queues: 5, stations: 0, snooping, capture });
    let known = families(&page);
    let (alerts, dashboard) = (read("prometheus/switch-alerts.yml"), read("grafana/switch.json"));
    for name in metrics_in(&alerts).into_iter().chain(metrics_in(&dashboard)) {
        assert!(known.contains(name), "no metric {name}");
    }
    // What is measured is shown, and what an alert waits for is a value that there is.
    let shown = metrics_in(&dashboard);
    assert!(shown.len() > 8, "{shown:?}");
    let reasons = alerts.split("reason=").skip(1).map(|rest| rest.split('"').nth(1));
    for reason in reasons.flat_map(|reason| reason.expect("quoted").split('|')) {
        assert!(page.contains(&format!("reason=\"{reason}\"")), "no reason {reason}");
    }
}

/// The metrics of a page.
fn families(page: &str) -> BTreeSet<&str> {
    page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect()
}

/// The metrics that a text names.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("wellspring_") || word.starts_with("process_")).collect()
}
