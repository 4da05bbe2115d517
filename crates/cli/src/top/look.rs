//! Reader of a server's page `/transfers`, which may be a hostile one's.

use serde_json::Value;

/// Transfers that are read, at most.
const MOST: usize = 1_024;
/// Longest text that is shown, in characters.
const LONGEST_TEXT: usize = 200;

/// A server at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Look {
    pub version: String,
    pub address: String,
    pub stopping: bool,
    pub sending: u64,
    pub receiving: u64,
    pub refused: u64,
    /// UDP payload \[bytes\].
    pub sent: u64,
    pub received: u64,
    pub transfers: Vec<Transfer>,
}

/// A transfer of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transfer {
    pub number: u64,
    pub client: String,
    pub object: String,
    pub is_put: bool,
    pub protocol: String,
    pub state: State,
    /// \[bytes\], as the next two; the bytes of symbols that went or came.
    pub size: u64,
    pub done: u64,
    pub moved: u64,
    pub multicast: bool,
    /// Symbols that were lost, and all; of a fetch, those that made up for lost ones.
    pub lost: Option<(u64, u64)>,
    /// Blocks decoded, and all that are in place.
    pub decoded: Option<(u64, u64)>,
}

/// How far a transfer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum State {
    Opening,
    Checking,
    #[default]
    Moving,
    Verifying,
}

impl Look {
    /// Reads a page; or says what is wrong with it.
    pub fn of(page: &[u8]) -> Result<Look, String> {
        let page: Value = serde_json::from_slice(page)
            .map_err(|error| format!("no metrics of wellspring serve: no JSON: {error}"))?;
        let transfers = page["transfers"].as_array();
        let transfers = transfers.ok_or("no metrics of wellspring serve: no transfers")?;
        Ok(Look {
            version: text(&page["version"]),
            address: text(&page["address"]),
            stopping: page["stopping"].as_bool().unwrap_or(false),
            sending: number(&page["sending"]),
            receiving: number(&page["receiving"]),
            refused: number(&page["refused"]),
            sent: number(&page["sent_bytes"]),
            received: number(&page["received_bytes"]),
            transfers: transfers.iter().take(MOST).map(transfer).collect(),
        })
    }
}

fn transfer(of: &Value) -> Transfer {
    let pair = |part: &str, rest: &[&str]| {
        let part = of[part].as_u64()?;
        let whole = rest.iter().map(|name| number(&of[*name])).fold(part, u64::saturating_add);
        Some((part, whole))
    };
    let is_put = of["direction"] == "receive";
    let lost = match is_put {
        true => pair("symbols_lost", &["symbols_useful", "symbols_redundant"]),
        false => pair("repair_symbols", &["source_symbols"]),
    };
    let decoded =
        of["blocks_decoded"].as_u64().map(|of_them| (of_them, number(&of["blocks_done"])));
    Transfer {
        number: number(&of["number"]),
        client: text(&of["client"]),
        object: text(&of["object"]),
        is_put,
        protocol: text(&of["protocol"]),
        state: match of["state"].as_str() {
            Some("opening") => State::Opening,
            Some("checking") => State::Checking,
            Some("verifying") => State::Verifying,
            _ => State::Moving,
        },
        size: number(&of["size"]),
        done: number(&of["done"]),
        moved: number(&of["moved"]),
        multicast: of["multicast"].as_bool().unwrap_or(false),
        lost,
        decoded,
    }
}

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or(0)
}

/// A text without what a terminal would obey, or that turns the direction of writing.
fn text(of: &Value) -> String {
    let turns = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}');
    let shown = |c: char| if c.is_control() || turns(c) { '·' } else { c };
    of.as_str().unwrap_or_default().chars().take(LONGEST_TEXT).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_is_read() {
        let page = json!({
            "version": "1", "address": "192.0.2.1:4711", "sending": 1, "receiving": 1,
            "sent_bytes": 5, "received_bytes": 6, "stopping": true, "refused": 2,
            "transfers": [
                {"number": 7, "client": "192.0.2.2:5", "object": "x", "direction": "send",
                 "protocol": "SCDP", "state": "moving", "size": 100, "done": 40, "moved": 44,
                 "source_symbols": 90, "repair_symbols": 10, "blocks_decoded": null},
                {"number": 1, "client": "192.0.2.3:5", "object": "y", "direction": "receive",
                 "state": "verifying", "size": 10, "done": 10, "multicast": true, "blocks_done": 4,
                 "blocks_decoded": 1, "symbols_lost": 2, "symbols_useful": 97, "symbols_redundant": 1},
            ],
        });
        let look = Look::of(page.to_string().as_bytes()).expect("a page");
        assert!(look.stopping);
        assert_eq!((look.sent, look.received, look.refused), (5, 6, 2));
        let [send, put] = &look.transfers[..] else { panic!("{look:?}") };
        assert_eq!((send.lost, send.decoded, send.is_put), (Some((10, 100)), None, false));
        assert_eq!((put.lost, put.decoded, put.is_put), (Some((2, 100)), Some((1, 4)), true));
        assert_eq!((put.state, put.multicast), (State::Verifying, true));
    }

    #[test]
    fn hostile_pages_are_bounded_and_harmless() {
        let long = "x".repeat(100_000);
        let one = json!({
            "client": "\u{1b}[2J\u{202e}evil\u{7}", "object": long, "size": -1, "done": "many",
            "moved": 1e300, "symbols_lost": u64::MAX, "symbols_useful": u64::MAX,
            "direction": "receive", "state": ["moving"], "number": {},
        });
        let page = json!({"transfers": vec![one; 3 * MOST], "version": 7, "sent_bytes": null});
        let look = Look::of(page.to_string().as_bytes()).expect("a page");
        assert_eq!((look.transfers.len(), look.version.as_str()), (MOST, ""));
        let first = &look.transfers[0];
        assert_eq!(first.client, "·[2J·evil·");
        assert_eq!(first.object.len(), LONGEST_TEXT);
        assert_eq!((first.size, first.done, first.moved), (0, 0, 0));
        assert_eq!(first.lost, Some((u64::MAX, u64::MAX)));
        let deep = "[".repeat(100_000);
        for page in ["", "{", "[]", "null", "{\"transfers\": {}}", "\u{0}", &deep] {
            assert!(Look::of(page.as_bytes()).is_err(), "{page}");
        }
    }
}
