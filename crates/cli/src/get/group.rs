//! Objects of one directory of the same hosts, which `wellspring get` fetches together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use wellspring_client::{
    Client, Cut, FetchError, FetchOptions, Host, Priority, Target, TreeChange, TreeError,
    TreeFilter, TreeOptions, Updates,
};
use wellspring_console::exit::Failed;
use wellspring_net::store::{Existing, ObjectName, StoreError};

use crate::transfer::{Location, Source};

use super::kept;

/// Groups that are fetched at one time.
const AT_ONCE: usize = 64;
/// Objects of a group that are fetched at one time, where they are fetched by themselves.
const OBJECTS_AT_ONCE: usize = 4;
/// Objects of a group that are compared with what is in place at one time.
const COMPARED_AT_ONCE: usize = 16;

/// Objects of one directory of the same hosts: file names there.
pub(super) struct Group {
    pub(super) hosts: Vec<Host>,
    pub(super) directory: Option<ObjectName>,
    pub(super) names: Arc<BTreeSet<String>>,
}

/// Objects by their file names: each is here, or why it is not.
type Became = BTreeMap<String, Option<String>>;

/// What is heard of a group while it is fetched.
#[derive(Default)]
struct Heard {
    became: Became,
    /// What had the right length and time, and was not moved.
    kept: BTreeSet<String>,
    /// What was put in place.
    moved: BTreeSet<String>,
}

impl Heard {
    /// Notes what was not moved. What was fetched, and is kept where the directory is listed once more, is right.
    fn keep(&mut self, path: String) {
        if self.became.insert(path.clone(), None) != Some(None) {
            self.kept.insert(path);
        }
    }
}

/// What became of a group.
#[derive(Default)]
pub(super) struct Fetched {
    pub(super) became: Became,
    /// Objects that were moved, and their length \[bytes\].
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// What ended the fetch, of those objects of which nothing is known besides.
    pub(super) error: Option<TreeError>,
}

impl Fetched {
    /// A fetch that failed. What had come by then is in its place, but need not be on the disk: as likely as not the error
    /// is that of the disk.
    fn ended_by(error: TreeError, mut became: Became) -> Fetched {
        became.retain(|_, reason| reason.is_some());
        Fetched { became, error: Some(error), ..Fetched::default() }
    }

    fn add(&mut self, other: Fetched) {
        self.became.extend(other.became);
        self.files += other.files;
        self.bytes += other.bytes;
        if self.error.is_none() {
            self.error = other.error;
        }
    }

    /// Notes that an object is not here.
    fn fail(&mut self, name: String, error: FetchError) {
        self.became.insert(name, Some(in_a_line(&error)));
        self.error.get_or_insert(TreeError::Fetch(error));
    }
}

/// Where objects go, and how.
pub(super) struct Destination {
    pub(super) client: Client,
    pub(super) directory: PathBuf,
    pub(super) priority: Priority,
    pub(super) cut: Cut,
    /// What becomes of files that others have put there.
    pub(super) existing: Existing,
}

/// Fetches all groups, many at a time; gives each with what became of its objects.
pub(super) async fn fetch_all(
    into: Destination,
    groups: Vec<Group>,
    updates: Updates,
) -> Vec<(Group, Fetched)> {
    let into = Arc::new(into);
    let parts = updates.parts(groups.len());
    let fetches = groups.into_iter().zip(parts).map(|(group, updates)| {
        let into = Arc::clone(&into);
        async move {
            let fetched = group.fetch(&into, updates).await;
            (group, fetched)
        }
    });
    together(AT_ONCE, fetches).await
}

/// Runs all, at most so many at one time; gives the results in order.
async fn together<T: Send + 'static>(
    at_once: usize,
    runs: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let places = Arc::new(Semaphore::new(at_once));
    let mut started = JoinSet::new();
    for (index, run) in runs.enumerate() {
        let places = Arc::clone(&places);
        started.spawn(async move {
            let _place = places.acquire_owned().await;
            (index, run.await)
        });
    }
    let mut results = started.join_all().await;
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// An error's text in one line.
pub(super) fn in_a_line(error: &impl std::error::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Group {
    /// By the directory's listing, with small objects in packs; one by one where hosts differ in what else they have
    /// there, or in its times, or where somebody has made a file here meanwhile.
    async fn fetch(&self, into: &Arc<Destination>, updates: Updates) -> Fetched {
        let (fetched, kept, moved) = self.fetch_together(into, updates.clone()).await;
        match &fetched.error {
            Some(
                TreeError::Disagreement(_)
                | TreeError::Fetch(
                    FetchError::Differ { .. } | FetchError::Store(StoreError::Exists(_)),
                ),
            ) => self.fetch_singly(into, (&self.names, &moved), updates).await,
            _ => self.mend_kept(into, kept, fetched).await,
        }
    }

    /// Gives what was kept for its length and time, and what was put in place, too.
    async fn fetch_together(
        &self,
        into: &Destination,
        updates: Updates,
    ) -> (Fetched, BTreeSet<String>, BTreeSet<String>) {
        // The names are those that were asked for.
        let options = TreeOptions::new(self.directory.clone())
            .allow_odd_names(true)
            .allow_hidden(true)
            .level(true)
            .existing(into.existing)
            .filter(filter(self))
            .priority(into.priority)
            .cut(into.cut)
            .updates(updates);
        let heard = Arc::new(Mutex::new(Heard::default()));
        let noted = Arc::clone(&heard);
        let hear = Arc::new(move |change: TreeChange| note(&noted, change));
        let report = into.client.fetch_tree(&self.hosts, &options, &into.directory, hear).await;
        let heard = std::mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner));
        let Heard { became, kept, moved } = heard;
        match report {
            Ok(report) => {
                let (files, bytes) = (report.fetched_files, report.fetched_bytes);
                (Fetched { became, files, bytes, error: None }, kept, moved)
            }
            Err(error) => (Fetched::ended_by(error, became), BTreeSet::new(), moved),
        }
    }

    /// Fetches what was kept for its length and time, and has other bytes.
    async fn mend_kept(
        &self,
        into: &Arc<Destination>,
        kept: BTreeSet<String>,
        mut fetched: Fetched,
    ) -> Fetched {
        let compare = kept.into_iter().map(|name| {
            let (object, path) = (self.name_of(&name), into.directory.join(&name));
            let (into, hosts) = (Arc::clone(into), self.hosts.clone());
            async move { (name, kept::differs(&into.client, &hosts, &object, path).await) }
        });
        let mut wrong = BTreeSet::new();
        for (name, differs) in together(COMPARED_AT_ONCE, compare).await {
            match differs {
                Ok(false) => {}
                Ok(true) => _ = wrong.insert(name),
                Err(error) => fetched.fail(name, error),
            }
        }
        let none = BTreeSet::new();
        fetched.add(self.fetch_singly(into, (&wrong, &none), Updates::default()).await);
        fetched
    }

    /// Fetches each by itself; what this call has `moved` before is replaced in any case.
    async fn fetch_singly(
        &self,
        into: &Arc<Destination>,
        (names, moved): (&BTreeSet<String>, &BTreeSet<String>),
        updates: Updates,
    ) -> Fetched {
        let mut fetched = Fetched::default();
        let parts = updates.parts(names.len());
        let fetches = names.iter().zip(parts).map(|(name, updates)| {
            let options = FetchOptions::new(self.name_of(name)).priority(into.priority);
            let options = options.cut(into.cut).updates(updates);
            let existing = if moved.contains(name) { Existing::Replace } else { into.existing };
            let target = Target::File { path: into.directory.join(name), existing };
            let (into, hosts) = (Arc::clone(into), self.hosts.clone());
            async move { into.client.fetch(&hosts, &options, target).await }
        });
        let reports = together(OBJECTS_AT_ONCE, fetches).await;
        for (name, report) in names.iter().zip(reports) {
            match report {
                Ok(report) => {
                    fetched.files += 1;
                    fetched.bytes += report.size;
                    fetched.became.insert(name.clone(), None);
                }
                Err(error) => fetched.fail(name.clone(), error),
            }
        }
        fetched
    }

    /// The object of that file name.
    fn name_of(&self, name: &str) -> ObjectName {
        let path = self.directory.as_ref().map(|directory| format!("{directory}/{name}"));
        let object = ObjectName::new(path.as_deref().unwrap_or(name));
        object.expect("the name of an object that was named")
    }

    /// An object as it was named.
    pub(super) fn object(&self, name: &str) -> String {
        let hosts: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        let directory = self.directory.as_ref().map(|d| format!("{d}/")).unwrap_or_default();
        format!("{}/{directory}{name}", hosts.join(","))
    }
}

/// The objects by their hosts and directories. Two objects of one file name are an error.
pub(super) fn groups(from: &[Source]) -> Result<Vec<Group>, Failed> {
    let mut by_place = BTreeMap::new();
    let mut all = BTreeMap::new();
    for source in from {
        let Source::Object(Location { hosts, name }) = source else {
            return Err(Failed::usage("a directory is fetched by a call of its own"));
        };
        if let Some(before) = all.insert(name.file_name(), (hosts, name))
            && before != (hosts, name)
        {
            let text = format!("{} and {name} would both be {}", before.1, name.file_name());
            return Err(Failed::usage(text));
        }
        let key = hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(",");
        let group: &mut Group = by_place.entry((key, name.parent())).or_insert_with(|| {
            let part = "a part of an object's name is one";
            let directory = name.parent().map(|parent| ObjectName::new(parent).expect(part));
            Group { hosts: hosts.clone(), directory, names: Arc::default() }
        });
        Arc::make_mut(&mut group.names).insert(name.file_name().to_owned());
    }
    Ok(by_place.into_values().collect())
}

fn filter(group: &Group) -> TreeFilter {
    let names = Arc::clone(&group.names);
    TreeFilter::by(move |path, is_directory| !is_directory && names.contains(path))
}

/// Notes what became of an object: here, or why not.
fn note(heard: &Mutex<Heard>, change: TreeChange) {
    let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
    match change {
        TreeChange::Fetched(path, _) => {
            heard.kept.remove(&path);
            heard.moved.insert(path.clone());
            heard.became.insert(path, None);
        }
        // A file that is made is one of which the mode alone was another.
        TreeChange::Made(path) | TreeChange::Kept(path) => heard.keep(path),
        TreeChange::Skipped(path, reason) => {
            heard.became.insert(path, Some(reason.to_string()));
        }
        TreeChange::LinkLeftOut(path) => {
            let reason = "is a symbolic link: name the file that it leads to";
            heard.became.insert(path, Some(reason.to_owned()));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(texts: &[&str]) -> Vec<Source> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    }

    #[test]
    fn objects_are_grouped_by_hosts_and_directory() {
        let from = sources(&["a/x/1", "a/x/2", "a/3", "a,b/x/4", "a/x/2"]);
        let Ok(groups) = groups(&from) else { panic!("no groups") };
        let shown: Vec<String> = groups
            .iter()
            .map(|group| group.names.iter().map(|name| group.object(name)).collect::<Vec<_>>())
            .map(|objects| objects.join(" "))
            .collect();
        assert_eq!(shown, ["a:4711/3", "a:4711/x/1 a:4711/x/2", "a:4711,b:4711/x/4"]);
    }

    #[test]
    fn what_came_before_a_fetch_failed_is_not_said_to_be_here() {
        let became = [("a", None), ("b", Some("a socket".to_owned()))];
        let became = became.map(|(name, reason)| (name.to_owned(), reason)).into();
        let fetched = Fetched::ended_by(TreeError::Stopped, became);
        assert_eq!(fetched.became, Became::from([("b".to_owned(), Some("a socket".to_owned()))]));
    }

    #[test]
    fn two_objects_of_one_name_are_refused_before_anything_moves() {
        assert!(groups(&sources(&["a/x/1", "a/y/1"])).is_err());
        assert!(groups(&sources(&["a/1", "b/1"])).is_err());
        assert!(groups(&sources(&["a/1", "a/x/"])).is_err());
    }
}
