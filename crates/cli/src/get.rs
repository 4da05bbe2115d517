//! `wellspring get`: one object from many hosts.

mod group;
mod kept;
mod lttp;
mod many;
mod report;
mod tree;

use std::io::IsTerminal;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use wellspring_client::{
    ByteRange, Client, ClientConfig, FetchOptions, FetchProtocol, Priority, Target,
};
use wellspring_console::exit::{Failed, INTERRUPTED};
use wellspring_console::interrupt::{Interrupt, detached};
use wellspring_console::output::{Stderr, Stdout};
use wellspring_console::usage::{cpu_seconds, peak_memory};
use wellspring_net::store::{Digest, Existing, ObjectName};

use crate::config::Line;
use crate::exit;
use crate::keys::KeyArgs;
use crate::progress::Display;
use crate::transfer::{CutArgs, FabricArg, NetworkArgs, PriorityArg, ReportArgs, Source, list};
use crate::tree_args::TreeArgs;
use report::Fetched;

/// Fetch an object from all hosts that hold it, at once.
///
/// Each host sends its share of the symbols, and one host that is left is enough. Hosts that fail,
/// restart or stall are asked again. By LTTP each host sends a contiguous part, and the others send
/// what a lost one did not. The file appears under its name complete, verified and
/// synced, or not at all. Without -o the object goes to standard output, or, if that is a
/// terminal, to a file of the object's name in the current directory. What goes to standard output, a
/// pipe or a device is kept in a file without a name in TMPDIR until its turn, if the object has more than 4 MiB.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring get a.example/models/7b.bin -o 7b.bin
  wellspring get a.example,b.example:5000,[2001:db8::7]/models/7b.bin -o 7b.bin
  wellspring get a.example/logs.tar | tar x
  wellspring get --range 0-1023 a.example,b.example/models/7b.bin -o head   # its first KiB
  wellspring get a.example,b.example/models/ -o models   # a directory; again: what has changed
  wellspring get a.example/x a.example/y b.example/z -o here
  generate-names | wellspring get --from - -o here   # HOST/OBJECT, one a line
  wellspring get --priority background a.example/backup.tar -o backup.tar
  wellspring get --protocol lttp a.example,b.example,c.example/7b.bin -o 7b.bin
  wellspring get a.example/x -o x                    # after Ctrl-C: what is missing
  wellspring get a.example/x -o x --json | jq .goodput_bits_per_second")]
pub struct GetArgs {
    #[command(flatten)]
    line: Line,
    /// Hosts that hold the object, and its name: its path below the directory they serve; with `/` at its
    /// end, a directory and all that is in it. A host is NAME, NAME:PORT or `[IPV6]:PORT`; of
    /// a name's addresses the first that answers is used. Several objects go to the
    /// directory -o under their file names, and come from up to 64 hosts at one time.
    #[arg(value_name = "HOST[,HOST...]/OBJECT|DIR/", required_unless_present_any = ["list", "print_config"])]
    from: Vec<Source>,
    /// Fetch the objects that a file lists, too, one a line; `-` is standard input.
    #[arg(long = "from", value_name = "FILE", id = "list")]
    list: Option<PathBuf>,
    /// File to write; in a directory it has the object's name; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(short, long)]
    force: bool,
    /// Of one object: begin anew, and leave no part of the file behind if the fetch does not succeed. Without
    /// --no-resume a fetch takes up what an earlier one into the same file had.
    #[arg(long)]
    no_resume: bool,
    /// The digest that the one object must have: 64 hexadecimal digits. Hosts with other bytes are
    /// skipped; without --digest, replicas that differ are an error.
    #[arg(long, value_name = "BLAKE3")]
    digest: Option<Digest>,
    /// Fetch only these bytes, by the blocks that hold them, each verified under the object's digest: A-B (with B), A-
    /// or -N (the last N). Nothing of an earlier fetch is taken up, and nothing is left for a later one.
    #[arg(long, value_name = "A-B", allow_hyphen_values = true)]
    range: Option<ByteRange>,
    /// The protocol of the transfer.
    #[arg(long, value_enum, default_value_t = ProtocolArg::Scdp, help_heading = "Transfer")]
    protocol: ProtocolArg,
    /// Whether it gives way to other transfers, by SCDP: in the background servers send it behind what else they send, in the
    /// lowest class, and on a shared path it takes what others leave.
    #[arg(long, value_enum, default_value_t = PriorityArg::Normal, help_heading = "Transfer")]
    priority: PriorityArg,
    /// LTTP's decoder [default: improved].
    #[arg(long, value_enum, help_heading = "Transfer")]
    decoder: Option<lttp::DecoderArg>,
    /// Swap the whole directory when all of it is there, instead of file by file. Files that stay as they are take no
    /// more room meanwhile.
    #[arg(long, help_heading = "Directories")]
    atomic: bool,
    /// Take names that begin with a dash, or hold characters that are invisible or turn the direction of writing.
    #[arg(long, help_heading = "Directories")]
    allow_odd_names: bool,
    /// Take names that begin with a dot into your home directory, too, where programs do as they say.
    #[arg(long, help_heading = "Directories")]
    allow_hidden: bool,
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    cut: CutArgs,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    report: ReportArgs,
}

impl GetArgs {
    /// Says what does not go with a range.
    fn check_range(&self, sources: &[Source]) -> Result<(), Failed> {
        if self.range.is_none() {
            return Ok(());
        }
        if !matches!(sources, [Source::Object(_)]) {
            return Err(Failed::usage("--range is of one object"));
        }
        if self.protocol != ProtocolArg::Scdp {
            return Err(Failed::usage("--range goes with --protocol scdp"));
        }
        // Under the object's name a part of it would be taken for the whole.
        let is_named = match self.output.as_deref() {
            None => !std::io::stdout().is_terminal(),
            Some(path) => !path.is_dir(),
        };
        if is_named {
            Ok(())
        } else {
            Err(Failed::usage("--range needs the name of a file: -o FILE"))
        }
    }

    /// Refuses a priority, and a congestion controller, where there is none.
    fn check_needs(&self) -> Result<(), Failed> {
        let by_scdp = self.protocol == ProtocolArg::Scdp;
        let usual = self.priority == PriorityArg::Normal;
        self.line.check_needs(&[("priority", "protocol scdp", by_scdp || usual)])?;
        let needs = match self.protocol {
            ProtocolArg::Scdp => ("fabric shared", self.network.fabric == FabricArg::Shared),
            ProtocolArg::Lttp => return Ok(()),
            ProtocolArg::Ndp => ("protocol scdp", false),
        };
        self.line.check_needs(&[("congestion", needs.0, needs.1)])
    }

    /// Says which option is not for what is fetched. Settings beside the command line are for those that they go with.
    fn check_kind(&self, sources: &[Source]) -> Result<(), Failed> {
        if self.line.has("decoder") && self.protocol != ProtocolArg::Lttp {
            return Err(Failed::usage("--decoder goes with --protocol lttp"));
        }
        if !matches!(sources, [Source::Object(_)]) {
            if self.digest.is_some() {
                return Err(Failed::usage("--digest is of one object"));
            }
            if self.line.has("no_resume") {
                let text = "--no-resume is of one object: a directory, and several objects, go on from what is there";
                return Err(Failed::usage(text));
            }
        }
        if !matches!(sources, [Source::Tree(_)]) {
            let own = ["--atomic", "--allow-odd-names", "--allow-hidden"];
            let own = own.into_iter().find(|flag| self.line.has(&flag[2..].replace('-', "_")));
            if let Some(flag) = own.or_else(|| self.tree.first_given(&self.line)) {
                let text = format!("{flag} goes with a directory: HOST/DIR/");
                return Err(Failed::usage(text));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ProtocolArg {
    /// RaptorQ symbols, at the receiver's pace.
    Scdp,
    /// LT codes at TFRC's rate (RFC 5348), stopped through a TCP connection to each host.
    Lttp,
    /// Packets without a code, at the receiver's pace, from the first host that has the object.
    Ndp,
}

pub async fn run(args: &GetArgs, quiet: bool) -> Result<(), Failed> {
    let mut sources = args.from.clone();
    if let Some(list) = &args.list {
        sources.extend(many::read_list(list)?);
    }
    args.check_range(&sources)?;
    args.check_kind(&sources)?;
    args.check_needs()?;
    let by_scdp = args.protocol == ProtocolArg::Scdp;
    let from = match &sources[..] {
        [Source::Object(from)] => from,
        [] => return Err(Failed::usage("the list names no object")),
        _ if !by_scdp => {
            return Err(Failed::usage(
                "by other protocols than SCDP objects are fetched one by one",
            ));
        }
        [Source::Tree(from)] => {
            let GetArgs { tree, cut, keys, network, report, allow_odd_names, allow_hidden, .. } =
                args;
            let priority = args.priority.into();
            let (output, atomic) = (args.output.as_deref(), args.atomic);
            let (allow_odd_names, allow_hidden) = (*allow_odd_names, *allow_hidden);
            let fetch = tree::Fetch {
                tree,
                atomic,
                allow_odd_names,
                allow_hidden,
                output,
                priority,
                cut,
                keys,
                network,
                report,
            };
            return tree::run(&fetch, from, quiet).await;
        }
        sources => {
            let GetArgs { force, cut, keys, network, report, .. } = args;
            let (force, output) = (*force, args.output.as_deref());
            let priority = args.priority.into();
            let fetch = many::Fetch { output, force, priority, cut, keys, network, report };
            return many::run(&fetch, sources, quiet).await;
        }
    };
    let mut interrupt = Interrupt::new()?;
    let name = &from.name;
    match args.protocol {
        ProtocolArg::Scdp => {}
        ProtocolArg::Lttp => args.network.check_one_path("LTTP")?,
        ProtocolArg::Ndp => {
            args.network.check_one_path("NDP")?;
            args.cut.check_none("NDP")?;
        }
    }
    let target = target(args.output.as_deref(), name, args.force);
    let (target, shown) = interrupt.guard(target).await??;
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    args.keys.warn_client();
    let driver = args.network.driver(any).keys(args.keys.load()?);
    let config = ClientConfig::default()
        .insecure(args.keys.insecure)
        .driver(driver)
        .timeout(args.network.timeout)
        .further_addresses(args.network.further_addresses());
    let client = Client::new(config).map_err(|error| exit::of_start(&error))?;
    let is_stream = matches!(target, Target::Writer(_));
    let to_stdout = is_stream && shown == "-";
    let title = format!("get {name} from {}", list(&from.hosts));
    let display = Display::new(&args.report, quiet, &title)?;
    let (protocol, cut) = match args.protocol {
        ProtocolArg::Scdp => (FetchProtocol::Scdp, args.cut.for_scdp()?),
        ProtocolArg::Lttp => {
            let method = args.decoder.unwrap_or(lttp::DecoderArg::Improved).method();
            (FetchProtocol::Lttp { method }, args.cut.to_cut())
        }
        ProtocolArg::Ndp => (FetchProtocol::Ndp, args.cut.to_cut()),
    };
    // A setting beside the command line is for SCDP.
    let priority = if by_scdp { args.priority.into() } else { Priority::Normal };
    let options = FetchOptions::new(name.clone())
        .protocol(protocol)
        .digest(args.digest)
        .cut(cut)
        .resume(!args.no_resume)
        .priority(priority)
        .range(args.range)
        .updates(display.updates());
    let fetched = interrupt.guard(client.fetch(&from.hosts, &options, target)).await;
    display.finish();
    let statistics = client.statistics().ok();
    // Ends the sessions in good order: the part file is whole, or gone, when we are.
    drop(client);
    let stays = !args.no_resume && args.range.is_none() && !is_stream;
    let fetched = fetched.map_err(|failed| match stays {
        true => Failed::new(INTERRUPTED, "interrupted; run it again to fetch what is missing"),
        false => failed,
    });
    let report = fetched?.map_err(|error| match is_stream {
        true => exit::of_stream(error, "wellspring serve", &shown),
        false => exit::of_fetch(&error, "wellspring serve", &shown),
    })?;
    let fetched = Fetched { name: name.as_str(), output: &shown, report: &report };
    if args.report.json {
        let mut object = fetched.to_json(statistics.as_ref());
        object["cpu_seconds"] = cpu_seconds(None).into();
        object["peak_memory_bytes"] = peak_memory().into();
        let line = object.to_string();
        if to_stdout {
            writeln!(Stderr, "{line}");
        } else {
            writeln!(Stdout, "{line}")?;
        }
    } else if !quiet {
        write!(Stderr, "{}", fetched.summary());
    }
    Ok(())
}

/// Where the object goes, and what that is called.
async fn target(
    output: Option<&Path>,
    name: &ObjectName,
    force: bool,
) -> Result<(Target, String), Failed> {
    let own_name = name.file_name();
    let path = match output {
        None if std::io::stdout().is_terminal() => PathBuf::from(own_name),
        None => return Ok((Target::Writer(Box::new(std::io::stdout())), "-".to_owned())),
        Some(path) if path == Path::new("-") => {
            return Ok((Target::Writer(Box::new(std::io::stdout())), "-".to_owned()));
        }
        Some(path) if path.is_dir() => path.join(own_name),
        Some(path) => path.to_owned(),
    };
    let shown = path.display().to_string();
    match std::fs::metadata(&path) {
        // A pipe or a device is written to, not replaced.
        Ok(meta) if !meta.is_file() && !meta.is_dir() => {
            Ok((Target::Writer(Box::new(open_in_place(path).await?)), shown))
        }
        // Said before a byte is moved; the final rename sees to it in any case.
        Ok(_) if !force => Err(exit::target_exists(shown)),
        _ => {
            let existing = if force { Existing::Replace } else { Existing::Keep };
            Ok((Target::File { path, existing }, shown))
        }
    }
}

/// Opens a pipe or a device to write to it. A pipe that nobody reads is waited for.
async fn open_in_place(path: PathBuf) -> Result<std::fs::File, Failed> {
    detached(move || {
        let file = std::fs::OpenOptions::new().write(true).open(&path);
        file.map_err(|error| Failed::system(path.display(), &error))
    })
    .await
}
