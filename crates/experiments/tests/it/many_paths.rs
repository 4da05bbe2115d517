//! One session over several equal-cost paths.

use wellspring_experiments::run::run;
use wellspring_experiments::scenario::Plan;
use wellspring_experiments::scenario::catalogue;

/// The goodput of `many-paths` by so many paths, where labels name them one by one \[Mbit/s\].
fn goodput(paths: u16, dead: bool) -> f64 {
    let mut text = catalogue::text("many-paths").unwrap().replace("\"hash\"", "\"label\"");
    if dead {
        // Routing does not notice.
        text = text.replace("kind = \"graph\"", "kind = \"graph\"\nconvergence = \"100s\"");
        text += "\n[[events]]\nat = \"300ms\"\nkind = \"link-down\"\nnodes = [\"s\", \"m2\"]\n";
    }
    let mut plan = Plan::parse(&text).unwrap().without_sweep();
    plan.set("protocol.paths", &paths.to_string()).unwrap();
    let outcome = run(&plan.scenarios().unwrap()[0], 1, &mut |_| {}).unwrap();
    outcome.foreground().next().expect("one transfer").goodput() / 1e6
}

#[test]
fn four_paths_carry_four_times_as_much_and_three_of_them_three_times() {
    let [one, four, three] = [(1, false), (4, false), (4, true)].map(|(n, dead)| goodput(n, dead));
    println!("{one:.0}, {four:.0}, {three:.0} Mbit/s");
    assert!((200.0..=250.0).contains(&one), "{one}");
    assert!(four >= 3.6 * 238.0, "{four}");
    assert!(three >= 2.7 * 238.0, "{three}");
}

#[test]
fn paths_need_switches_that_read_labels() {
    let text = catalogue::text("many-paths").unwrap().replace("\"hash\"", "\"flow\"");
    let error = Plan::parse(&text).and_then(|plan| plan.scenarios()).unwrap_err();
    assert!(format!("{error:#}").contains("protocol.paths"), "{error:#}");
}
