//! Destination of a put: hosts, and a name there.

use std::path::Path;
use std::str::FromStr;

use wellspring_client::Host;
use wellspring_console::exit::Failed;
use wellspring_net::store::ObjectName;

use crate::transfer::without_scheme;

/// Hosts, and what stands behind the first `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    hosts: Vec<Host>,
    place: Option<String>,
}

impl FromStr for Destination {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let text = without_scheme(text);
        let (hosts, place) = match text.split_once('/') {
            Some((hosts, place)) => (hosts, Some(place)),
            None => (text, None),
        };
        if let Some(place) = place.filter(|place| !place.is_empty()) {
            // Hosts with a place each, rather than one that makes a directory `x,b`.
            if place.contains(',') {
                let text = "a comma in the name: all hosts get it under one name, A,B,C/NAME \
                            (a name that has a comma is given by --name)";
                return Err(text.to_owned());
            }
            let name = place.strip_suffix('/').unwrap_or(place);
            ObjectName::new(name).map_err(|error| format!("bad name: {error}"))?;
        }
        let host =
            |host: &str| host.parse().map_err(|e: wellspring_client::NotAHost| e.to_string());
        let hosts = hosts.split(',').map(host).collect::<Result<_, _>>()?;
        Ok(Destination { hosts, place: place.map(str::to_owned) })
    }
}

/// All hosts, and the one place there.
pub struct To {
    pub hosts: Vec<Host>,
    place: Option<String>,
}

/// Joins what was named.
pub fn join(named: &[Destination], name: Option<&ObjectName>) -> Result<To, Failed> {
    let mut places = named.iter().filter_map(|named| named.place.as_ref());
    let place = places.next();
    if let (Some(place), Some(name)) = (place, name) {
        return Err(Failed::usage(format!("two names: /{place} and --name {name}")));
    }
    if let Some(other) = places.find(|other| Some(*other) != place) {
        let text = format!("two names: /{} and /{other}", place.map_or("", String::as_str));
        return Err(Failed::usage(text).hint("All hosts get it under one name: A,B,C/NAME."));
    }
    let hosts = named.iter().flat_map(|named| named.hosts.clone()).collect();
    let place = place.cloned().or_else(|| name.map(ToString::to_string));
    Ok(To { hosts, place })
}

impl To {
    /// The name of an object; `-` has none of its own.
    pub fn object(&self, file: &Path) -> Result<ObjectName, Failed> {
        let own = file.file_name().and_then(|name| name.to_str()).filter(|name| *name != "-");
        let (folder, own) = match self.place.as_deref() {
            Some(place) if !place.is_empty() && !place.ends_with('/') => ("", Some(place)),
            place => (place.unwrap_or_default(), own),
        };
        let name = own.and_then(|own| ObjectName::new(&format!("{folder}{own}")).ok());
        name.ok_or_else(|| match file == Path::new("-") {
            true => {
                Failed::usage("standard input has no name").hint("Give it one: `put - HOST/NAME`.")
            }
            false => {
                let text = format!("the name of {} cannot be that of an object", file.display());
                Failed::usage(text).hint("Give it one by --name.")
            }
        })
    }

    /// The directory that becomes the same as one here; none for all that a host serves.
    pub fn directory(&self, here: &Path) -> Result<Option<ObjectName>, Failed> {
        let place = match &self.place {
            Some(place) => place.strip_suffix('/').unwrap_or(place).to_owned(),
            None => {
                let whole = here.canonicalize().ok();
                let name =
                    whole.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
                name.unwrap_or_default().to_owned()
            }
        };
        if place.is_empty() && self.place.is_some() {
            return Ok(None);
        }
        ObjectName::new(&place).map(Some).map_err(|error| {
            let text = format!(
                "the name of {} cannot be that of a directory there: {error}",
                here.display()
            );
            Failed::usage(text).hint("Name the directory behind the hosts: HOST/NAME/.")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(named: &[&str], name: Option<&str>) -> Result<To, Failed> {
        let named: Vec<Destination> = named.iter().map(|text| text.parse().expect(text)).collect();
        join(&named, name.map(|name| ObjectName::new(name).expect("a name")).as_ref())
    }

    fn object(named: &[&str], name: Option<&str>, file: &str) -> Option<String> {
        to(named, name).ok()?.object(Path::new(file)).ok().map(|name| name.to_string())
    }

    #[test]
    fn a_name_stands_behind_the_hosts_or_is_the_files_own() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(object(&["a,b"], None, "x/7b.bin"), some("7b.bin"));
        assert_eq!(object(&["a", "b"], Some("d/y"), "x/7b.bin"), some("d/y"));
        assert_eq!(object(&["a,b/d/"], None, "x/7b.bin"), some("d/7b.bin"));
        assert_eq!(object(&["a/"], None, "x/7b.bin"), some("7b.bin"));
        assert_eq!(object(&["wellspring://a,b/y"], None, "x/7b.bin"), some("y"));
        assert_eq!(object(&["a", "b/d/y"], None, "x/7b.bin"), some("d/y"));
        assert_eq!(object(&["a/y"], None, "-"), some("y"));
        assert_eq!(object(&["a/d/"], None, "-"), None);
        assert_eq!(object(&["a"], None, "-"), None);
        assert_eq!(object(&["a/x", "b/y"], None, "f"), None);
        assert_eq!(object(&["a/x"], Some("y"), "f"), None);
        assert_eq!(object(&["a,b"], Some("x,b/y"), "f"), some("x,b/y"));
        let hosts = to(&["a,b:5", "[::1]:6/x"], None).ok().map(|to| to.hosts.len());
        assert_eq!(hosts, Some(3));
        for bad in ["a/../x", "a//", "a/x//", "", "/x", "a,/x", "a/x,b/x", "a/d/,b/d/"] {
            assert!(bad.parse::<Destination>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_directory_has_its_own_name_or_that_behind_the_hosts() {
        let home = tempfile::tempdir().expect("directory");
        let here = home.path().join("models");
        std::fs::create_dir(&here).expect("directory");
        let directory = |named: &str| {
            let to = to(&[named], None).expect("a destination");
            to.directory(&here).expect("a directory").map(|name| name.to_string())
        };
        assert_eq!(directory("a"), Some("models".to_owned()));
        assert_eq!(directory("a/x/y/"), Some("x/y".to_owned()));
        assert_eq!(directory("a/x"), Some("x".to_owned()));
        assert_eq!(directory("a/"), None);
    }
}
