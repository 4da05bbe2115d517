//! The page in headless Chromium: digests, errors, keys, names for screen readers, pictures.
//!
//! `make web-test` builds the page, installs the browser and runs these. Pictures are left in
//! `target/web/pictures` to be looked at.

mod chromium;

use chromium::{Chromium, Page, Scheme};
use serde_json::{Value, json};
use std::path::PathBuf;
use wellspring_experiments::run;
use wellspring_web::scenario::build;
use wellspring_web::setup::{Preset, Setup};

const WHY: &str = "needs a browser and the page: run by `make web-test`";

fn page_file() -> PathBuf {
    let file = std::env::var_os("WELLSPRING_PAGE").expect(WHY);
    std::fs::canonicalize(file).expect("the page is built")
}

fn pictures() -> PathBuf {
    let folder = page_file().with_file_name("pictures");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Opens the page with a fragment and waits until all runs are measured.
fn open(browser: &mut Chromium, fragment: &str) -> Page {
    let page = browser.page();
    browser.size(&page, (1280, 900), Scheme::Light);
    browser.navigate(&page, &format!("file://{}#{fragment}", page_file().display()));
    measured(browser, &page);
    page
}

fn measured(browser: &mut Chromium, page: &Page) {
    browser.wait(
        page,
        "state.dirty === null && document.getElementById('announce').textContent !== ''",
    );
}

fn native(setup: &Setup) -> Vec<String> {
    let digest = |protocol| {
        let ready = build(setup, protocol).unwrap();
        let outcome = run::run(&ready.scenario, setup.seed, &mut |_| {}).unwrap();
        format!("{:016x}", outcome.counters.digest)
    };
    setup.protocols.iter().copied().map(digest).collect()
}

/// The digests that the table shows, and those of the runs played to their end.
fn digests(browser: &mut Chromium, page: &Page) -> [Value; 2] {
    let shown = "[...document.querySelectorAll('#results tbody code')].map((c) => c.textContent)";
    let shown = browser.evaluate(page, shown);
    let played = "state.playing = false; seek(longest());
        state.runs.map((run, i) => { while (!simulator.play(i, 20)) {} return simulator.digest(i); })";
    [shown, browser.evaluate(page, played)]
}

fn no_errors(browser: &mut Chromium) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "needs a browser and the page: run by `make web-test`"]
fn every_story_has_the_native_digests_and_no_error() {
    let mut browser = Chromium::start();
    for preset in Preset::ALL {
        let page = open(&mut browser, &preset.setup().fragment());
        let expected = json!(native(&preset.setup()));
        assert_eq!(digests(&mut browser, &page), [expected.clone(), expected], "{preset:?}");
        browser.close(page);
    }
    no_errors(&mut browser);
}

#[test]
#[ignore = "needs a browser and the page: run by `make web-test`"]
fn a_visitor_with_a_keyboard_breaks_the_network_in_mid_run() {
    let mut browser = Chromium::start();
    let page = open(&mut browser, "preset=fetch&seed=3");
    browser.evaluate(&page, "document.activeElement.blur(); state.playing = false; seek(0.004)");
    browser.evaluate(
        &page,
        "document.getElementById('node').value = '10'; document.getElementById('fail').focus()",
    );
    browser.key(&page, "Enter", "\r");
    browser.wait(&page, "location.hash.includes('fail=')");
    measured(&mut browser, &page);
    let hash = browser.evaluate(&page, "location.hash");
    let setup = Setup::parse(hash.as_str().unwrap()).unwrap();
    assert_eq!((setup.events.len(), setup.events[0].node.as_str()), (1, "tor2"));
    assert_eq!(setup.events[0].at, 4_000_000);
    assert_eq!(browser.evaluate(&page, "state.now"), json!(0.004));
    let expected = json!(native(&setup));
    assert_ne!(expected, json!(native(&Setup { events: Vec::new(), ..setup.clone() })));
    assert_eq!(digests(&mut browser, &page), [expected.clone(), expected]);
    // The same link elsewhere is the same run.
    let again = open(&mut browser, &setup.fragment());
    assert_eq!(browser.evaluate(&again, "location.hash"), hash);
    // Play and pause by key.
    let playing = browser.evaluate(&again, "document.body.focus(); state.playing");
    browser.key(&again, "k", "k");
    assert_eq!(browser.evaluate(&again, "state.playing"), json!(!playing.as_bool().unwrap()));
    no_errors(&mut browser);
}

#[test]
#[ignore = "needs a browser and the page: run by `make web-test`"]
fn garbled_links_are_answered_in_words() {
    let mut browser = Chromium::start();
    for (fragment, says) in [
        ("senders=99999999999", "between 1 and 100"),
        ("%00%ff<script>", "of the form"),
        ("preset=incast&fail=core99@1", "core99"),
        ("rate=1e99", "whole number"),
    ] {
        let page = open(&mut browser, fragment);
        let error = browser.evaluate(&page, "document.getElementById('error').innerText");
        assert!(error.as_str().unwrap().contains(says), "{fragment}: {error}");
        assert_eq!(browser.evaluate(&page, "state.settings.preset"), json!("incast"));
        browser.close(page);
    }
    // What comes later does not take the runs away that are there.
    let page = open(&mut browser, "preset=outcast");
    browser.evaluate(&page, "location.hash = '#seed=minus'");
    browser.wait(&page, "!document.getElementById('error').hidden");
    assert_eq!(browser.evaluate(&page, "state.settings.preset"), json!("outcast"));
    no_errors(&mut browser);
}

#[test]
#[ignore = "needs a browser and the page: run by `make web-test`"]
fn a_failure_that_is_refused_leaves_the_page_as_it_was() {
    let mut browser = Chromium::start();
    let page = open(&mut browser, "preset=incast");
    browser.evaluate(&page, "state.playing = false; state.now = 11; breakNow(false)");
    browser.wait(&page, "!document.getElementById('error').hidden");
    assert_eq!(browser.evaluate(&page, "state.settings.events.length"), json!(0));
    browser.evaluate(&page, "seek(0.001); breakNow(false)");
    browser.wait(&page, "document.getElementById('error').hidden");
    assert_eq!(browser.evaluate(&page, "state.settings.events.length"), json!(1));
    no_errors(&mut browser);
}

#[test]
#[ignore = "needs a browser and the page: run by `make web-test`"]
fn what_failed_is_crossed_out_and_what_it_cut_off_is_not() {
    let mut browser = Chromium::start();
    let events = "fail=tor0@1000,tor1@2000&repair=tor0@3000,agg0@3500";
    let page = open(&mut browser, &format!("preset=incast&{events}"));
    browser.evaluate(&page, "state.playing = false");
    for (at, failed) in [
        ("0", json!([])),
        ("0.001", json!(["tor0"])),
        ("0.0025", json!(["tor0", "tor1"])),
        ("0.004", json!(["tor1"])),
    ] {
        let named = format!("[...state.runs[0].picture.failedNodes({at})]");
        assert_eq!(browser.evaluate(&page, &named), failed, "{at}");
    }
    no_errors(&mut browser);
}

#[test]
#[ignore = "needs a browser and the page: run by `make web-test`"]
fn a_run_that_did_not_finish_is_not_the_best_and_has_no_digest() {
    let mut browser = Chromium::start();
    let page = open(&mut browser, "preset=incast");
    let row = "(() => {
        showResults();
        const row = document.querySelector('#results tbody tr');
        return [row.querySelector('.best') !== null, row.querySelector('code').textContent];
    })()";
    browser.evaluate(&page, "Object.assign(state.runs[0].result, { last: 1e-9, digest: 'd' })");
    assert_eq!(browser.evaluate(&page, row), json!([true, "d"]));
    browser.evaluate(
        &page,
        "Object.assign(state.runs[0].result, { digest: null }); state.runs[0].result.done--",
    );
    assert_eq!(browser.evaluate(&page, row), json!([false, "–"]));
    no_errors(&mut browser);
}

#[test]
#[ignore = "needs a browser and the page: run by `make web-test`"]
fn time_is_stepped_at_once_and_its_slider_follows_though_it_has_the_focus() {
    let mut browser = Chromium::start();
    let page = open(&mut browser, "preset=incast");
    // Nothing is measured yet.
    let stepped = "state.playing = false; open('preset=incast'); firstWindow(); seek(0);
        for (let i = 0; i < 3; i++) document.getElementById('step').click();
        state.now / state.window";
    let stepped = browser.evaluate(&page, stepped).as_f64().unwrap();
    assert!((stepped - 0.03).abs() < 1e-9, "{stepped}");
    measured(&mut browser, &page);
    browser.evaluate(&page, "document.getElementById('time').focus(); seek(longest() / 8)");
    browser.wait(&page, "Math.abs(document.getElementById('time').value - 500) < 1");
    browser.key(&page, "k", "k");
    assert_eq!(browser.evaluate(&page, "state.playing"), json!(true));
    no_errors(&mut browser);
}

#[test]
#[ignore = "needs a browser and the page: run by `make web-test`"]
fn sliders_change_the_run_and_the_link() {
    let mut browser = Chromium::start();
    let page = open(&mut browser, "preset=incast");
    browser.evaluate(
        &page,
        "for (const [id, value] of [['set-senders', 11], ['set-buffer', 2], ['set-loss', 6]]) {
            const slider = document.getElementById(id);
            slider.value = value;
            slider.dispatchEvent(new Event('input'));
        }
        document.getElementById('announce').textContent = ''",
    );
    measured(&mut browser, &page);
    let hash = browser.evaluate(&page, "location.hash");
    let setup = Setup::parse(hash.as_str().unwrap()).unwrap();
    assert_eq!((setup.senders, setup.buffer, setup.loss), (12, 8, 1_000));
    let expected = json!(native(&setup));
    assert_eq!(digests(&mut browser, &page), [expected.clone(), expected]);
    no_errors(&mut browser);
}

#[test]
#[ignore = "needs a browser and the page: run by `make web-test`"]
fn a_visitor_has_a_burst_lost_and_sees_it_come_back() {
    let mut browser = Chromium::start();
    let page = open(&mut browser, "preset=burst&fail=");
    // What is not of a long link is not shown, and the relay alone can be chosen.
    let shown = "(() => {
        const shown = (all) => [...all].filter((one) => one.offsetParent !== null);
        return [
            shown(document.querySelectorAll('#protocols input')).map((box) => box.value).join(' '),
            shown(document.querySelectorAll('#settings input[type=range]')).map((one) => one.id).join(' '),
            [...document.getElementById('node').options].map((one) => one.textContent).join(' '),
        ];
    })()";
    let protocols =
        "tcp-reno tcp-cubic tcp-bbr maelstrom-reno maelstrom-cubic maelstrom-bbr maelstrom-paper";
    let sliders = "set-size set-buffer set-rate set-delay set-loss";
    assert_eq!(browser.evaluate(&page, shown), json!([protocols, sliders, "relay"]));
    let clean = browser.evaluate(&page, "state.runs.map((run) => run.result.last)");
    browser.evaluate(
        &page,
        "state.playing = false; seek(0.4281); document.getElementById('burst').focus()",
    );
    browser.key(&page, "Enter", "\r");
    browser.wait(&page, "location.hash.includes('relay@428100')");
    measured(&mut browser, &page);
    let hash = browser.evaluate(&page, "location.hash");
    let setup = Setup::parse(hash.as_str().unwrap()).unwrap();
    let at: Vec<_> = setup.events.iter().map(|event| (event.at, event.up)).collect();
    assert_eq!(at, [(428_100_000, false), (430_100_000, true)]);
    // While it lasts the relay is crossed out; then the far appliance brings back what was lost.
    browser.evaluate(&page, "seek(0.429)");
    let failed = "[...state.runs[0].picture.failedNodes(state.now)]";
    assert_eq!(browser.evaluate(&page, failed), json!(["relay"]));
    browser.evaluate(&page, "seek(longest())");
    browser.frames(&page, 3);
    let told = browser.evaluate(&page, "state.runs.map((run) => run.status.textContent)");
    let told: Vec<_> = told.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert!(!told[0].contains("brought back") && told[0].contains("lost"), "{told:?}");
    assert!(told[1].contains("brought back") && told[1].contains("3 MB of 3 MB"), "{told:?}");
    let table = "[...document.querySelectorAll('#results th[scope=col]')].map((th) => th.textContent).join(' ')";
    let table = browser.evaluate(&page, table);
    assert!(table.as_str().unwrap().contains("Lost Brought back"), "{table}");
    let burst = browser.evaluate(&page, "state.runs.map((run) => run.result.last)");
    let time = |times: &Value, run: usize| times[run].as_f64().unwrap();
    assert!(time(&burst, 0) > 1.5 * time(&clean, 0) && time(&burst, 1) < 1.15 * time(&clean, 1));
    let expected = json!(native(&setup));
    assert_eq!(digests(&mut browser, &page), [expected.clone(), expected]);
    // Other stories have no such button, and their own protocols.
    browser.evaluate(&page, "document.querySelector('[data-preset=incast]').click()");
    measured(&mut browser, &page);
    let hidden = "document.getElementById('burst').offsetParent === null";
    assert_eq!(browser.evaluate(&page, hidden), json!(true));
    no_errors(&mut browser);
}

#[test]
#[ignore = "needs a browser and the page: run by `make web-test`"]
fn everything_that_takes_focus_has_a_name() {
    let mut browser = Chromium::start();
    let page = open(&mut browser, "preset=fetch");
    let nodes = browser.accessible(&page);
    let interactive =
        ["button", "slider", "checkbox", "combobox", "textbox", "spinbutton", "image", "table"];
    let mut seen = 0;
    for (role, name) in nodes.iter().filter(|(role, _)| interactive.contains(&role.as_str())) {
        assert!(!name.trim().is_empty(), "a {role} without a name");
        seen += 1;
    }
    assert!(seen > 30, "{nodes:?}");
    no_errors(&mut browser);
}

#[test]
#[ignore = "needs a browser and the page: run by `make web-test`"]
fn pictures_fill_desktop_and_phone_in_light_and_dark() {
    let mut browser = Chromium::start();
    // What there is to see in the middle of each story [s].
    let moments = [0.003, 0.006, 0.01, 0.004, 0.0215, 0.447];
    for (preset, at) in Preset::ALL.into_iter().zip(moments) {
        let page = open(&mut browser, &preset.setup().fragment());
        browser.evaluate(&page, &format!("state.playing = false; showPlaying(); seek({at})"));
        for (name, size) in [("desktop", (1280, 900)), ("phone", (390, 844))] {
            for scheme in [Scheme::Light, Scheme::Dark] {
                browser.size(&page, size, scheme);
                browser.frames(&page, 3);
                let colour =
                    browser.evaluate(&page, "getComputedStyle(document.body).backgroundColor");
                let is_dark = colour.as_str().unwrap().contains("18, 22, 29");
                assert_eq!(is_dark, scheme == Scheme::Dark, "{colour}");
                let wide =
                    browser.evaluate(&page, "document.documentElement.scrollWidth - innerWidth");
                assert!(
                    wide.as_i64().unwrap() <= 0,
                    "{preset:?} on {name} is {wide} pixels too wide"
                );
                check_canvases(&mut browser, &page, preset);
                let file = format!("{}-{name}-{scheme:?}.png", preset.as_str()).to_lowercase();
                browser.screenshot(&page, &pictures().join(file));
            }
        }
        let speed = "[state.firstPicture, Math.max(...state.frames.slice(2)),
            state.frames.reduce((a, b) => a + b, 0) / state.frames.length].map(Math.round)";
        let speed = browser.evaluate(&page, speed);
        eprintln!("{preset:?}: first picture, longest and mean frame {speed} ms");
        browser.close(page);
    }
    no_errors(&mut browser);
}

/// Every network is drawn in several colours, on some of its area and not on all of it.
fn check_canvases(browser: &mut Chromium, page: &Page, preset: Preset) {
    let count = "state.runs.map((run) => {
        const { width, height } = run.canvas;
        const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
        copy.drawImage(run.canvas, 0, 0);
        const { data } = copy.getImageData(0, 0, width, height);
        const colours = new Set();
        let painted = 0;
        for (let i = 0; i < data.length; i += 4) {
            if (data[i + 3] < 255) continue;
            painted++;
            colours.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
        }
        return [painted / (width * height), colours.size];
    })";
    let all = browser.evaluate(page, count);
    assert_eq!(all.as_array().unwrap().len(), preset.setup().protocols.len());
    for canvas in all.as_array().unwrap() {
        let (painted, colours) = (canvas[0].as_f64().unwrap(), canvas[1].as_u64().unwrap());
        assert!((0.002..0.5).contains(&painted) && colours >= 3, "{preset:?}: {all}");
    }
}
