//! The Wireshark dissector against the encoders of `wellspring-wire`, by tshark.

use std::path::{Path, PathBuf};
use std::process::Command;
use wellspring_core::{Duration, Ecn, SessionId, Time};
use wellspring_experiments::observe::Capture;
use wellspring_experiments::run::run_captured;
use wellspring_experiments::scenario::Plan;
use wellspring_sim::pcapng::{Packet, PcapWriter, Transport, client_port};
use wellspring_wire::control::{
    self, Abilities, Geometry, Name, Probe, ProbeReply, RefusalCode, Reply, Request, Runs, Start,
};
use wellspring_wire::lttp::{self, Datagram, Message};
use wellspring_wire::ndp::{self, Data, NdpHeader};
use wellspring_wire::scdp::{self, Close, CloseReason, Mode, Options, Pull, ScdpHeader, Symbol};

/// A captured packet, and fields as tshark is to print them.
type Case = (Transport, Vec<(&'static str, String)>);

const SESSION: SessionId = SessionId(0x1234_5678);

/// The rows that tshark prints of some fields, one a packet, each field's values joined by commas.
fn tshark(capture: &Path, arguments: &[&str]) -> Vec<String> {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/wireshark/wellspring.lua");
    let output = Command::new("tshark")
        .arg("-X")
        .arg(format!("lua_script:{}", script.display()))
        .arg("-r")
        .arg(capture)
        .args(arguments)
        .output()
        .expect("tshark is installed by `make setup`");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

fn write(folder: &Path, cases: &[Case]) -> PathBuf {
    let path = folder.join("packets.pcapng");
    let mut writer = PcapWriter::new(Vec::new()).expect("begun");
    for (place, (transport, _)) in cases.iter().enumerate() {
        let packet = Packet {
            time: Time::from_picos(1_000_000 * place as u64),
            source: 1,
            destination: PcapWriter::<Vec<u8>>::host_address(2),
            ecn: Ecn::NotCapable,
            transport: transport.clone(),
            payload_len: 0,
        };
        writer.write(&packet).expect("written");
    }
    std::fs::write(&path, writer.finish().expect("whole")).expect("written");
    path
}

/// Each field of each packet is what the encoder was given.
fn check(cases: &[Case]) {
    let folder = tempfile::tempdir().expect("folder");
    let capture = write(folder.path(), cases);
    let mut names: Vec<_> =
        cases.iter().flat_map(|(_, fields)| fields).map(|field| field.0).collect();
    names.sort_unstable();
    names.dedup();
    let mut arguments = vec!["-T", "fields", "-E", "separator=|"];
    names.iter().for_each(|name| arguments.extend(["-e", name]));
    let rows = tshark(&capture, &arguments);
    assert_eq!(rows.len(), cases.len(), "{rows:?}");
    for (place, (row, (_, fields))) in rows.iter().zip(cases).enumerate() {
        let values: Vec<_> = row.split('|').collect();
        for (name, expected) in fields {
            let at = names.binary_search(name).expect("asked for");
            assert_eq!(values[at], expected, "{name} of packet {place}");
        }
    }
    assert_eq!(complaints(&capture), [""; 0]);
}

fn complaints(capture: &Path) -> Vec<String> {
    let wrong =
        "_ws.malformed || _ws.lua.error || wellspring.check.good == 0 || wellspring.expert.short";
    tshark(capture, &["-Y", wrong])
}

fn options() -> Options {
    Options {
        transfer_len: 5_000_000_000,
        object_tag: 0,
        source_blocks: 77,
        symbol_size: 1_300,
        mode: Mode::ManyToOne,
        initial_window: 12,
    }
}

fn symbol(options: Option<Options>) -> ScdpHeader {
    let fin = options.is_none();
    ScdpHeader::Symbol(Symbol {
        sbn: 70_000,
        esi: 65_537,
        number: 1_000,
        epoch: 3,
        priority: 5,
        fin,
        options,
    })
}

/// A packet with `payload` bytes behind its header, of which `kept` bytes were left.
fn scdp_packet(header: &ScdpHeader, payload: u16, kept: usize) -> Transport {
    let mut bytes = vec![0; scdp::HEADER_WITH_OPTIONS_LEN];
    let len = scdp::emit(SESSION, header, &[0xab; 32], payload, &mut bytes);
    bytes.resize(len + usize::from(payload), 0x55);
    bytes.truncate(kept);
    Transport::Udp(bytes)
}

fn fields<const N: usize>(fields: [(&'static str, &str); N]) -> Vec<(&'static str, String)> {
    fields.into_iter().map(|(name, value)| (name, value.to_owned())).collect()
}

#[test]
fn scdp_packets_are_shown_as_they_were_encoded() {
    let pull = Pull {
        sbn: 9,
        granted: 4_000,
        floor: 8,
        run: 6,
        epoch: 2,
        fin: true,
        first: Some(1_000_000),
    };
    let close = Close { reason: CloseReason::Detached, from_receiver: true };
    check(&[
        (
            scdp_packet(&symbol(Some(options())), 40, 1_500),
            fields([
                ("wellspring.session", "0x12345678"),
                ("wellspring.scdp.sbn", "70000"),
                ("wellspring.scdp.esi", "65537"),
                ("wellspring.scdp.number", "1000"),
                ("wellspring.scdp.epoch", "3"),
                ("wellspring.scdp.priority", "5"),
                ("wellspring.scdp.transfer_len", "5000000000"),
                ("wellspring.scdp.source_blocks", "77"),
                ("wellspring.scdp.symbol_size", "1300"),
                ("wellspring.scdp.mode", "2"),
                ("wellspring.scdp.initial_window", "12"),
                ("wellspring.digest", &"ab".repeat(32)),
                ("wellspring.payload_len", "40"),
                ("wellspring.trimmed", "0"),
            ]),
        ),
        (
            scdp_packet(&symbol(None), 40, 24),
            fields([("wellspring.trimmed", "1"), ("wellspring.scdp.number", "1000")]),
        ),
        (
            scdp_packet(&symbol(None), 40, 16),
            fields([("wellspring.trimmed", "1"), ("wellspring.scdp.number", "")]),
        ),
        (
            scdp_packet(&ScdpHeader::Pull(pull), 0, 1_500),
            fields([
                ("wellspring.scdp.sbn", "9"),
                ("wellspring.scdp.granted", "4000"),
                ("wellspring.scdp.floor", "8"),
                ("wellspring.scdp.run", "6"),
                ("wellspring.scdp.first", "1000000"),
            ]),
        ),
        (
            scdp_packet(&ScdpHeader::Close(close), 0, 1_500),
            fields([("wellspring.scdp.reason", "4"), ("wellspring.scdp.from_receiver", "1")]),
        ),
    ]);
}

#[test]
fn datagrams_that_the_kernel_has_not_cut_yet_are_shown_one_by_one() {
    let Transport::Udp(one) = scdp_packet(&symbol(None), 40, 1_500) else { unreachable!("UDP") };
    let numbers = vec![("wellspring.scdp.esi", "65537,65537,65537".to_owned())];
    check(&[(Transport::Udp(one.repeat(3)), numbers)]);
}

#[test]
fn sealed_packets_are_shown_as_far_as_they_are_in_clear() {
    let Transport::Udp(mut sealed) = scdp_packet(&symbol(None), 40, 1_500) else {
        unreachable!("UDP")
    };
    scdp::set_tagged(&mut sealed, true);
    let tag = [[1; 8], [7, 0, 0, 0, 0, 0, 1, 0]].concat();
    sealed.splice(24..24, tag);
    sealed.extend([2; 16]);
    let shown = fields([
        ("wellspring.sealed", "1"),
        ("wellspring.trimmed", "0"),
        ("wellspring.channel", "7"),
        ("wellspring.counter", "256"),
    ]);
    check(&[(Transport::Udp(sealed), shown)]);
}

fn ndp_packet(header: &NdpHeader) -> Transport {
    let mut bytes = vec![0; ndp::DATA_HEADER_LEN];
    let len = ndp::emit_header(SESSION, header, 20, &mut bytes);
    bytes.truncate(len);
    Transport::Udp(bytes)
}

#[test]
fn ndp_packets_are_shown_as_they_were_encoded() {
    let data = Data {
        number: 6,
        total: 9,
        window: 8,
        vanished: 2,
        sent: Time::from_picos(77),
        rtt: Duration::from_micros(250),
    };
    check(&[
        (
            ndp_packet(&NdpHeader::Data(data)),
            fields([
                ("wellspring.session", "0x12345678"),
                ("wellspring.ndp.number", "6"),
                ("wellspring.ndp.packets", "9"),
                ("wellspring.ndp.window", "8"),
                ("wellspring.ndp.vanished", "2"),
                ("wellspring.sent", "77"),
                ("wellspring.rtt", "0.00025"),
                ("wellspring.trimmed", "1"),
            ]),
        ),
        (ndp_packet(&NdpHeader::Nack { number: 5 }), fields([("wellspring.ndp.number", "5")])),
        (ndp_packet(&NdpHeader::Pull { granted: 3 }), fields([("wellspring.ndp.granted", "3")])),
        (ndp_packet(&NdpHeader::Done), fields([("wellspring.ndp.type", "4")])),
    ]);
}

#[test]
fn lttp_is_shown_as_it_was_encoded() {
    let cookie = lttp::Cookie(0xfeed);
    let datagram = |datagram: &Datagram<'_>| {
        let mut bytes = Vec::new();
        lttp::emit(cookie, datagram, &mut bytes);
        Transport::Udp(bytes)
    };
    let message = |from_client, message: &Message<'_>| {
        let mut bytes = Vec::new();
        lttp::emit_message(message, &mut bytes);
        Transport::Message { client_port: client_port(SESSION), from_client, bytes }
    };
    let symbol = Datagram::Symbol {
        sbn: 1,
        esi: 2,
        number: 3,
        sent: Time::from_picos(4),
        rtt: Duration::from_millis(5),
        payload: &[6; 7],
    };
    let report = Datagram::Report {
        echo: Time::from_picos(8),
        delay: Duration::from_millis(9),
        receive_rate: 10,
        loss_event_rate: 1 << 31,
    };
    let request = Message::Request {
        name: Name::new("models/7b.bin").expect("a name"),
        digest: [0xcd; 32],
        offset: 11,
        len: 12,
        geometry: lttp::Geometry { symbol_size: 13, block_symbols: 14 },
        timeout_ms: 16,
    };
    check(&[
        (
            datagram(&symbol),
            fields([
                ("wellspring.lttp.cookie", "0x000000000000feed"),
                ("wellspring.lttp.block", "1"),
                ("wellspring.lttp.esi", "2"),
                ("wellspring.lttp.number", "3"),
                ("wellspring.rtt", "0.005"),
                ("wellspring.payload", &"06".repeat(7)),
            ]),
        ),
        (
            datagram(&report),
            fields([
                ("wellspring.lttp.receive_rate", "10"),
                ("wellspring.lttp.loss_event_rate", "0.5"),
                ("wellspring.lttp.delay", "0.009"),
            ]),
        ),
        (datagram(&Datagram::Hello), fields([("wellspring.kind", "5")])),
        (
            message(true, &request),
            fields([
                ("wellspring.lttp.message", "0"),
                ("wellspring.lttp.offset", "11"),
                ("wellspring.lttp.part", "12"),
                ("wellspring.lttp.symbol_size", "13"),
                ("wellspring.lttp.block_symbols", "14"),
                ("wellspring.control.timeout", "16"),
                ("wellspring.control.name", "models/7b.bin"),
            ]),
        ),
        (message(true, &Message::Stop { next: 15 }), fields([("wellspring.lttp.next", "15")])),
    ]);
}

#[test]
fn a_reply_is_linked_to_its_request() {
    let geometry = Geometry { symbol_size: 1_300, symbols_per_block: 512, initial_window: 12 };
    let name = Name::new("models/7b.bin").expect("a name");
    let start = Start {
        session: SESSION,
        name,
        digest: [0xab; 32],
        share_index: 1,
        share_count: 3,
        geometry,
        resume: None,
        background: true,
        timeout_ms: 5_000,
    };
    let request = |nonce, request: &Request<'_>| {
        let mut bytes = Vec::new();
        control::emit_request(nonce, control::Cookie([9; 16]), request, &mut bytes);
        Transport::Udp(bytes)
    };
    let reply = |nonce, reply: &Reply<'_>| {
        let mut bytes = Vec::new();
        control::emit_reply(nonce, reply, &mut bytes);
        Transport::Udp(bytes)
    };
    let runs = Runs::write([1..4, 9..11]);
    let probed = ProbeReply {
        reply_len: 300,
        class: 2,
        largest_back: 1_252,
        clock_us: 77,
        abilities: Abilities(31),
        rights: "alice: read",
    };
    let held = Reply::Held { runs: Runs::new(&runs).expect("ascending") };
    check(&[
        (
            request(1, &Request::Info { name, geometry }),
            fields([
                ("wellspring.control.request", "0"),
                ("wellspring.control.name", "models/7b.bin"),
                ("wellspring.scdp.symbol_size", "1300"),
                ("wellspring.control.symbols_per_block", "512"),
            ]),
        ),
        (
            request(2, &Request::Start(start)),
            fields([
                ("wellspring.session", "0x12345678"),
                ("wellspring.control.share_index", "1"),
                ("wellspring.control.share_count", "3"),
                ("wellspring.control.resume", "0"),
                ("wellspring.control.background", "1"),
                ("wellspring.control.timeout", "5000"),
                ("wellspring.control.name", "models/7b.bin"),
            ]),
        ),
        (
            reply(1, &Reply::Refused { code: RefusalCode::NotFound, text: "no object" }),
            fields([
                ("wellspring.control.request_in", "1"),
                ("wellspring.control.answer_time", "2e-06"),
                ("wellspring.control.code", "1"),
                ("wellspring.control.text", "no object"),
            ]),
        ),
        (
            reply(3, &held),
            fields([
                ("wellspring.control.request_in", ""),
                ("wellspring.control.run_start", "1,9"),
                ("wellspring.control.run_end", "4,11"),
            ]),
        ),
        (
            request(4, &Request::Probe(Probe { len: 1_472, reply_len: 300, class: 3 })),
            fields([
                ("wellspring.control.probe_len", "1472"),
                ("wellspring.control.reply_len", "300"),
                ("wellspring.control.class", "0x03"),
            ]),
        ),
        (
            reply(4, &Reply::Probe(probed)),
            fields([
                ("wellspring.control.request_in", "5"),
                ("wellspring.control.reply_len", "300"),
                ("wellspring.control.class", "0x02"),
                ("wellspring.control.largest_back", "1252"),
                ("wellspring.control.clock", "77"),
                ("wellspring.control.abilities", "0x1f"),
                ("wellspring.control.text", "alice: read"),
            ]),
        ),
    ]);
}

#[test]
fn captures_of_simulations_open_in_wireshark() {
    let folder = tempfile::tempdir().expect("folder");
    let short = "buffer_packets = 8\n";
    let marking = "buffer_packets = 8\nmark_packets = 2\n";
    let dropping = "buffer_packets = 8\noverflow = \"drop\"\n";
    for (protocol, switch, layer, filter) in [
        ("scdp", "", "wellspring", "wellspring.scdp.esi && wellspring.trimmed == 1"),
        ("ndp", "", "wellspring", "wellspring.ndp.type == 0 && wellspring.trimmed == 1"),
        ("tcp-newreno", short, "tcp", "tcp.analysis.retransmission"),
        ("dctcp", marking, "tcp", "ip.dsfield.ecn == 3"),
        ("lttp", dropping, "wellspring", "wellspring.lttp.message == 4"),
    ] {
        let text = format!(
            "name = \"test\"\n[topology]\nkind = \"single-switch\"\nhosts = 17\n[switch]\n\
             {switch}[protocol]\nname = \"{protocol}\"\n[workload]\nkind = \"incast\"\n\
             senders = 16\nsize = \"64KiB\"\n"
        );
        let scenario =
            Plan::parse(&text).and_then(|plan| plan.scenarios()).expect("a scenario").remove(0);
        let outcome = run_captured(&scenario, 1, None, &mut |_| {}).expect("runs");
        let receiver = outcome.foreground().next().map(|flow| flow.peer).expect("a flow");
        let path = folder.path().join(format!("{protocol}.pcapng"));
        let capture = Capture { host: receiver, path: path.clone() };
        run_captured(&scenario, 1, Some(&capture), &mut |_| {}).expect("runs");
        let all = tshark(&path, &["-T", "fields", "-e", "frame.protocols"]);
        assert!(
            !all.is_empty() && all.iter().all(|row| row.contains(layer) || row.contains("tcp")),
            "{protocol}: {all:?}"
        );
        assert_eq!(complaints(&path), [""; 0], "{protocol}");
        assert!(!tshark(&path, &["-Y", filter]).is_empty(), "{protocol}: nothing shows {filter}");
    }
}
