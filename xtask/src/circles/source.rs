//! Module paths, re-exports and names used, read from the source files of a crate.

use std::collections::{BTreeMap, BTreeSet};

/// A module path from the crate's root.
type Path = Vec<String>;

/// A source file as a module.
struct Module {
    file: String,
    path: Path,
    /// What it passes on under a name: the path, from the crate's root where it starts there.
    passed_on: BTreeMap<String, Path>,
    /// Modules whose every name it passes on.
    passed_on_whole: Vec<Path>,
    /// Names of modules it imported, with their paths.
    imported: BTreeMap<String, Path>,
    /// Paths its code names, from the crate's root.
    named: Vec<Path>,
    /// Items it defines.
    defined: BTreeSet<String>,
}

/// The modules of a crate, tests aside.
pub struct Crate {
    modules: Vec<Module>,
    by_path: BTreeMap<Path, usize>,
}

impl Crate {
    /// Reads the files of a crate, each with its path below `src`.
    pub fn read(files: &[(&str, &str)]) -> Self {
        let code: Vec<(&str, Path, String)> = files
            .iter()
            .filter(|(file, _)| !is_test(file))
            .map(|(file, text)| (*file, module_path(file), code(text)))
            .collect();
        let by_path: BTreeMap<Path, usize> =
            code.iter().enumerate().map(|(index, (_, path, _))| (path.clone(), index)).collect();
        let modules = code
            .into_iter()
            .map(|(file, path, code)| Module::read(file, path, &code, &by_path))
            .collect();
        Self { modules, by_path }
    }

    /// The files that each file depends on.
    pub fn dependencies(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (index, module) in self.modules.iter().enumerate() {
            let targets = module.named.iter().filter_map(|path| self.definer(path, 0));
            let others = targets.filter(|target| *target != index);
            let files = others.map(|target| self.modules[target].file.clone());
            edges.insert(module.file.clone(), files.collect());
        }
        edges
    }

    /// The module that defines what `path` names; `None` if the path only names a module.
    fn definer(&self, path: &[String], depth: usize) -> Option<usize> {
        if depth > 16 {
            return None; // names passed on in a ring
        }
        let inner = (0..=path.len()).rev().find(|&len| self.by_path.contains_key(&path[..len]))?;
        let index = self.by_path[&path[..inner]];
        let module = &self.modules[index];
        let (name, rest) = path[inner..].split_first()?;
        if module.defined.contains(name) {
            return Some(index);
        }
        if let Some(target) = module.passed_on.get(name) {
            let longer = [target.as_slice(), rest].concat();
            return self.definer(&longer, depth + 1);
        }
        let through = module.passed_on_whole.iter().find_map(|whole| {
            let longer = [whole.as_slice(), std::slice::from_ref(name), rest].concat();
            let definer = self.definer(&longer, depth + 1)?;
            self.modules[definer].defined.contains(name).then_some(definer)
        });
        through.or(Some(index))
    }
}

impl Module {
    fn read(file: &str, path: Path, code: &str, modules: &BTreeMap<Path, usize>) -> Self {
        let mut module = Self {
            file: file.to_owned(),
            path,
            passed_on: BTreeMap::new(),
            passed_on_whole: Vec::new(),
            imported: BTreeMap::new(),
            named: Vec::new(),
            defined: defined(code),
        };
        let rest = module.read_uses(code, modules);
        module.read_paths(&rest, modules);
        module
    }

    /// Reads the `use` declarations and gives back the code without them.
    fn read_uses(&mut self, code: &str, modules: &BTreeMap<Path, usize>) -> String {
        let mut rest = String::new();
        let mut statements = code.split_inclusive(';');
        for statement in statements.by_ref() {
            let Some(start) = use_start(statement) else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(&statement[..start]);
            let is_public = statement[..start].trim_end().ends_with("pub")
                || statement[..start].trim_end().ends_with(')');
            let tree = statement[start..].trim_start_matches("use ").trim_end_matches(';');
            for (path, name) in flatten(tree) {
                let Some(path) = self.absolute(&path, modules) else { continue };
                if name == "*" {
                    if is_public {
                        self.passed_on_whole.push(path);
                    }
                } else if is_public {
                    self.passed_on.insert(name, path);
                } else if modules.contains_key(&path) {
                    self.imported.insert(name, path);
                } else {
                    self.named.push(path);
                }
            }
        }
        rest
    }

    /// Reads the paths that stand in the code itself.
    fn read_paths(&mut self, code: &str, modules: &BTreeMap<Path, usize>) {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        for word in code.split(|c: char| !is_part(c)).filter(|word| word.contains("::")) {
            let path: Path = word.split("::").map(str::to_owned).collect();
            if path.iter().any(String::is_empty) && path.last().is_some_and(|end| !end.is_empty()) {
                continue;
            }
            let path: Path = path.into_iter().filter(|part| !part.is_empty()).collect();
            if let Some(path) = self.absolute(&path, modules) {
                self.named.push(path);
            }
        }
    }

    /// `path` from the crate's root; `None` if it leads to another crate or to an item in scope.
    fn absolute(&self, path: &[String], modules: &BTreeMap<Path, usize>) -> Option<Path> {
        let (first, rest) = path.split_first()?;
        let mut base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.path.clone(),
            "super" => parent(&self.path)?,
            name => {
                let child = [self.path.as_slice(), &[name.to_owned()]].concat();
                if modules.contains_key(&child) { child } else { self.imported.get(name)?.clone() }
            }
        };
        let mut rest = rest;
        while let Some(("super", after)) = rest.split_first().map(|(a, b)| (a.as_str(), b)) {
            base = parent(&base)?;
            rest = after;
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }
}

fn parent(path: &[String]) -> Option<Path> {
    path.split_last().map(|(_, above)| above.to_vec())
}

/// Whether a file holds tests only, by its name.
fn is_test(file: &str) -> bool {
    file.split('/').any(|part| part == "tests" || part == "tests.rs" || part == "bin")
        || file.ends_with("_tests.rs")
}

/// The module path of a file below `src`.
fn module_path(file: &str) -> Path {
    let mut path: Path = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| last == "mod") || file == "lib.rs" || file == "main.rs" {
        path.pop();
    }
    path
}

/// `text`, laid out by rustfmt, without comments, strings and what only tests are built with.
fn code(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let indent = &line[..line.len() - line.trim_start().len()];
            let close = format!("{indent}}}");
            let ends = |inner: &str| {
                inner == close
                    || (inner.ends_with(';')
                        && inner.starts_with(indent)
                        && !inner[indent.len()..].starts_with(char::is_whitespace))
            };
            lines.by_ref().find(|inner| ends(inner));
            continue;
        }
        let line = without_strings(line);
        kept.push_str(line.split("//").next().unwrap_or_default());
        kept.push('\n');
    }
    kept
}

/// A line with what stands between double quotes blanked.
fn without_strings(line: &str) -> String {
    line.replace("\\\"", "")
        .replace("'\"'", "")
        .split('"')
        .step_by(2)
        .collect::<Vec<_>>()
        .join("\"\"")
}

/// Where a `use` declaration starts in a statement.
fn use_start(statement: &str) -> Option<usize> {
    let start = statement.rfind("use ")?;
    let before = statement[..start].trim_end();
    let opens =
        before.is_empty() || before.ends_with(['}', '{', ']', ';', ')']) || before.ends_with("pub");
    opens.then_some(start)
}

/// The paths of a `use` tree, each with the name it brings into scope.
fn flatten(tree: &str) -> Vec<(Path, String)> {
    let tree = tree.trim();
    if let Some(open) = tree.find('{') {
        let prefix: Path = parts(&tree[..open]);
        let inner = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
        let mut found = Vec::new();
        for branch in split_outside_braces(inner) {
            for (path, name) in flatten(branch) {
                let is_self = path.first().is_some_and(|part| part == "self") && path.len() == 1;
                let name = if is_self { prefix.last().cloned().unwrap_or(name) } else { name };
                let path = if is_self { Vec::new() } else { path };
                found.push(([prefix.clone(), path].concat(), name));
            }
        }
        return found;
    }
    let (path, alias) =
        tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias)));
    let mut path = parts(path);
    let Some(last) = path.last().cloned() else { return Vec::new() };
    if last == "*" {
        path.pop();
    }
    vec![(path, alias.map_or(last, |alias| alias.trim().to_owned()))]
}

fn parts(path: &str) -> Path {
    path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn split_outside_braces(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&list[start..]);
    found.retain(|branch| !branch.trim().is_empty());
    found
}

/// The names of the items at the top of a file, and of its macros.
fn defined(code: &str) -> BTreeSet<String> {
    const KINDS: &[&str] =
        &["struct", "enum", "union", "trait", "fn", "const", "static", "type", "macro_rules!"];
    let mut names = BTreeSet::new();
    for line in code.lines().filter(|line| !line.starts_with(char::is_whitespace)) {
        let mut words = line.split(|c: char| c.is_whitespace() || c == '(' || c == '<' || c == ':');
        while let Some(word) = words.next() {
            if KINDS.contains(&word) {
                let name = words.by_ref().find(|name| !name.is_empty() && !KINDS.contains(name));
                let is_name = |c: char| c.is_alphanumeric() || c == '_';
                names.extend(name.map(|name| name.chars().take_while(|c| is_name(*c)).collect()));
                break;
            }
        }
    }
    names
}
