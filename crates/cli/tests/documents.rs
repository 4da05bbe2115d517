//! Statements of the documents about the command.

use std::path::Path;

use wellspring_net::socket::SocketConfig;

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
