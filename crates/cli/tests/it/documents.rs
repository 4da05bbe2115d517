//! Statements of the documents about the command.

use std::path::Path;
use std::process::Command;

use wellspring_net::socket::SocketConfig;

const WELLSPRING: &str = env!("CARGO_BIN_EXE_wellspring");

fn document(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).expect("the document")
}

#[test]
fn the_buffers_recommended_are_those_asked_for() {
    let text = document("docs/src/installing.md");
    let config = SocketConfig::new(([127, 0, 0, 1], 0).into());
    for (name, asked) in
        [("net.core.rmem_max", config.receive_buffer), ("net.core.wmem_max", config.send_buffer)]
    {
        assert!(text.contains(&format!("{name}={asked}")), "{name}: {asked} bytes are asked for");
    }
}

#[test]
fn completions_know_the_flags_and_man_pages_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = Command::new(WELLSPRING).args(["completions", shell]).output().expect("runs");
        let script = String::from_utf8_lossy(&script.stdout).into_owned();
        assert!(
            script.contains("inject-loss") && script.contains("maelstrom"),
            "{shell}: {script}"
        );
    }
    let folder = tempfile::tempdir().expect("a directory");
    let written = Command::new(WELLSPRING).arg("man").arg(folder.path()).status().expect("runs");
    assert!(written.success());
    for page in ["wellspring.1", "wellspring-get.1", "wellspring-maelstrom-up.1"] {
        let text = std::fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(text.contains(".SH"), "{page}");
    }
}
