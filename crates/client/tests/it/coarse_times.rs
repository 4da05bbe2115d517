//! Trees where times are kept in whole seconds, as Lustre and small inodes of ext4 do. Mounting needs root.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::served::runtime;
use crate::tree_files::{contents, make_tree, write};
use wellspring_client::store::ObjectName;
use wellspring_client::{Client, ClientConfig, Host, PutTreeOptions, TreeOptions};
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;

/// An ext4 file system in a file, with inodes that have no room for more than seconds.
struct CoarseDisk(PathBuf);

impl CoarseDisk {
    fn mount(home: &Path) -> Option<CoarseDisk> {
        let (image, at) = (home.join("image"), home.join("coarse"));
        let file = std::fs::File::create(&image).expect("made");
        file.set_len(1 << 30).expect("sparse");
        std::fs::create_dir(&at).expect("directory");
        let ran = |program: &str, arguments: &[&str], paths: &[&Path]| {
            let mut command = Command::new(program);
            command.args(arguments).args(paths).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let made = ran("mkfs.ext4", &["-q", "-I", "128", "-O", "^metadata_csum"], &[&image]);
        if made && ran("mount", &["-o", "loop"], &[&image, &at]) {
            return Some(CoarseDisk(at));
        }
        assert!(std::env::var_os("CI").is_none(), "not run: no ext4 can be mounted");
        println!("NOT TESTED: times in whole seconds (mounting needs root)");
        None
    }
}

impl Drop for CoarseDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn where_times_are_whole_seconds_nothing_is_moved_twice_and_a_change_is_seen() {
    let (served, home) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let Some(disk) = CoarseDisk::mount(home.path()) else { return };
    make_tree(served.path());
    runtime().block_on(async {
        let serve = |directory: PathBuf| async move {
            let config = ServerConfig::new(own_address(), directory).allow_put(true);
            let server = Server::bind(config.allow_overwrite(true)).await.expect("server");
            let host: Host = server.local_addr().to_string().parse().expect("a host");
            (server, [host])
        };
        let client = Client::new(ClientConfig::default()).expect("client");
        let (_from, hosts) = serve(served.path().to_owned()).await;
        let to = disk.0.join("got");
        let whole = TreeOptions::new(None);
        let get = || client.fetch_tree(&hosts, &whole, &to, Arc::new(|_| {}));
        assert!(get().await.expect("a tree").fetched_files > 300);
        assert_eq!(get().await.expect("a tree").fetched_files, 0);
        write(served.path(), "many/01/8", b"12345678");
        let changed = std::fs::File::options().write(true).open(served.path().join("many/01/8"));
        let later = SystemTime::now() + Duration::from_millis(1_500);
        changed.and_then(|file| file.set_modified(later)).expect("time");
        assert_eq!(get().await.expect("a tree").fetched_files, 1);
        let of = |at: &Path| std::fs::read(at.join("many/01/8")).expect("read");
        assert_eq!(of(served.path()), of(&to));

        let (_to, hosts) = serve(disk.0.clone()).await;
        let options =
            PutTreeOptions::new(TreeOptions::new(Some(ObjectName::new("put").expect("a name"))));
        let put = || client.put_tree(served.path(), &hosts, &options, Arc::new(|_, _| {}));
        let (first, second) = (put().await.expect("put"), put().await.expect("put"));
        assert!(first.receivers[0].lacked_files > 300 && first.begun_again == 0, "{first:?}");
        assert_eq!((second.receivers[0].lacked_files, second.sent_files), (0, 0));
        assert_eq!(contents(&disk.0.join("put")).len(), contents(served.path()).len());
    });
}
