//! The workspace as the checks see it: the files git knows, and the packages cargo knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::levels::{Dependency, Package};

/// The files of the workspace, by their path from its root, with `/` between parts.
pub struct Tree {
    root: PathBuf,
    texts: BTreeMap<String, String>,
    paths: BTreeSet<String>,
}

impl Tree {
    /// Reads the files that git tracks, or would track, in the workspace this binary was built in.
    pub fn open() -> Result<Self, String> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .ok_or("run me through cargo: cargo run -p xtask -- check")?;
        let root = Path::new(&manifest).parent().ok_or("xtask has no folder above it")?.to_owned();
        let listing = run(Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&root))?;
        let files = listing.split('\0').filter(|path| !path.is_empty());
        let mut tree = Self { root, texts: BTreeMap::new(), paths: BTreeSet::new() };
        for path in files {
            tree.add(path)?;
        }
        Ok(tree)
    }

    /// A tree of the given texts, for tests.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let texts: BTreeMap<_, _> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let paths = texts.keys().cloned().collect();
        Self { root: PathBuf::new(), texts, paths }
    }

    fn add(&mut self, path: &str) -> Result<(), String> {
        let file = self.root.join(path);
        if !file.exists() {
            return Ok(()); // deleted and not yet committed
        }
        if file.is_dir() {
            self.paths.insert(path.to_owned()); // a link to a folder of the tree
            return Ok(());
        }
        let bytes = std::fs::read(&file).map_err(|e| format!("{path}: {e}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            self.texts.insert(path.to_owned(), text);
        }
        self.paths.insert(path.to_owned());
        Ok(())
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// The files that are UTF-8 text, in the order of their paths.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text at `path`, if it is there and is text.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Whether `path` is a file here, or a folder that holds one.
    pub fn has(&self, path: &str) -> bool {
        if path.is_empty() || self.paths.contains(path) {
            return true;
        }
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.paths.range(folder.clone()..).next().is_some_and(|next| next.starts_with(&folder))
    }

    /// The packages of the workspace, with everything they need, as cargo resolves them.
    pub fn packages(&self) -> Result<Vec<Package>, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let json = run(Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--all-features"])
            .current_dir(&self.root))?;
        let metadata = serde_json::from_str(&json).map_err(|e| format!("cargo metadata: {e}"))?;
        parse_packages(&metadata, &self.root)
    }
}

/// Turns `cargo metadata` into the workspace's packages.
fn parse_packages(metadata: &Value, root: &Path) -> Result<Vec<Package>, String> {
    let list = |value: &Value, name: &str| -> Result<Vec<Value>, String> {
        value[name].as_array().cloned().ok_or(format!("cargo metadata has no list `{name}`"))
    };
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let packages = list(metadata, "packages")?;
    let names: BTreeMap<String, String> =
        packages.iter().map(|p| (text(p, "id"), text(p, "name"))).collect();
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in list(&metadata["resolve"], "nodes")? {
        let mut needs = Vec::new();
        for dependency in list(&node, "deps")? {
            let kinds = list(&dependency, "dep_kinds")?;
            if kinds.iter().any(|kind| kind["kind"] != "dev") {
                needs.push(text(&dependency, "pkg"));
            }
        }
        edges.insert(text(&node, "id"), needs);
    }

    let members = list(metadata, "workspace_members")?;
    let mut found = Vec::new();
    for package in packages.iter().filter(|p| members.contains(&p["id"])) {
        let dependencies = list(package, "dependencies")?
            .iter()
            .map(|d| Dependency { name: text(d, "name"), dev: d["kind"] == "dev" })
            .collect();
        let manifest = PathBuf::from(text(package, "manifest_path"));
        let folder = manifest.parent().unwrap_or(root);
        found.push(Package {
            name: text(package, "name"),
            folder: folder.strip_prefix(root).unwrap_or(folder).to_string_lossy().into_owned(),
            dependencies,
            closure: closure(&text(package, "id"), &edges, &names),
        });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// The names of all that `id` needs to run, near and far.
fn closure(
    id: &str,
    edges: &BTreeMap<String, Vec<String>>,
    names: &BTreeMap<String, String>,
) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut todo = vec![id];
    while let Some(next) = todo.pop() {
        for need in edges.get(next).into_iter().flatten() {
            if seen.insert(need.as_str()) {
                todo.push(need);
            }
        }
    }
    seen.into_iter().filter_map(|id| names.get(id).cloned()).collect()
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("{command:?}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_when_it_holds_a_file() {
        let tree = Tree::of(&[("docs/src/a.md", ""), ("docs.md", "")]);
        assert!(tree.has("docs"));
        assert!(tree.has("docs/src/"));
        assert!(tree.has("docs/src/a.md"));
        assert!(!tree.has("docs/sr"));
        assert!(!tree.has("docs/src/b.md"));
    }

    #[test]
    fn metadata_gives_members_with_their_near_and_far_needs() {
        let metadata = serde_json::json!({
            "workspace_members": ["net 1"],
            "packages": [
                {"id": "net 1", "name": "wellspring-net", "manifest_path": "/ws/crates/net/Cargo.toml",
                 "dependencies": [{"name": "mid", "kind": null}, {"name": "proptest", "kind": "dev"}]},
                {"id": "mid 1", "name": "mid", "manifest_path": "/r/mid/Cargo.toml", "dependencies": []},
                {"id": "far 1", "name": "far", "manifest_path": "/r/far/Cargo.toml", "dependencies": []},
                {"id": "prop 1", "name": "proptest", "manifest_path": "/r/p/Cargo.toml", "dependencies": []},
            ],
            "resolve": {"nodes": [
                {"id": "net 1", "deps": [
                    {"pkg": "mid 1", "dep_kinds": [{"kind": null}]},
                    {"pkg": "prop 1", "dep_kinds": [{"kind": "dev"}]}]},
                {"id": "mid 1", "deps": [{"pkg": "far 1", "dep_kinds": [{"kind": null}]}]},
            ]},
        });
        let packages = parse_packages(&metadata, Path::new("/ws")).unwrap();
        assert_eq!(packages.len(), 1);
        let net = &packages[0];
        assert_eq!(net.folder, "crates/net");
        assert_eq!(net.dependencies.iter().filter(|d| d.dev).count(), 1);
        assert_eq!(net.closure, BTreeSet::from(["mid".to_owned(), "far".to_owned()]));
    }

    #[test]
    fn metadata_of_another_shape_is_an_error() {
        assert!(parse_packages(&serde_json::json!({}), Path::new("/ws")).is_err());
    }

    #[test]
    fn a_failing_command_tells_what_it_said() {
        assert!(run(Command::new("git").arg("no-such-verb")).unwrap_err().contains("no-such-verb"));
    }
}
