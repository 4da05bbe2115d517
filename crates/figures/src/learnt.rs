//! Conclusions of each figure, in three sentences.

/// What reproducing a figure has shown, in three sentences; empty for a name that is no figure's.
///
/// Measured values stand in the rows: a sentence here holds whatever the scale, or names the record it is from.
pub fn learnt(figure: &str) -> &'static str {
    LEARNT.iter().find(|(name, _)| *name == figure).map_or("", |(_, text)| text)
}

const LEARNT: &[(&str, &str)] = &[
    (
        "scdp-abstract",
        "The abstract states its gains as \"up to\", so the greatest gain over sizes, loads and patterns is held \
         against it, in writes over the better of multi-unicast and a daisy chain. In the quick record goodput gains \
         a third over NDP in reads, and a tenth to a fifth in writes, where over multi-unicast alone it would be six \
         to seven tenths. Completion times of flows up to 100 KB are cut by little, since their time on the wire is \
         the same for every protocol.",
    ),
    (
        "scdp-1a",
        "Without multicast a client sends three copies over one link, so three replicas have less than half of one \
         replica's goodput. A daisy chain moves two of the copies to other links and helps as long as these are idle. \
         TCP is below NDP once its window is the 21 KB of the authors' models, which the paper does not state.",
    ),
    (
        "scdp-1b",
        "A block that lies on three hosts and is read from one of them is read as fast as one that lies on one host. \
         The paper's loss from three senders appears where each of the three sends the whole block, as the authors' \
         published model does. So the figure shows the cost of redundant copies and not of many-to-one.",
    ),
    (
        "scdp-5",
        "With 10 us a link a window of 12 symbols carries 726 Mbit/s at most, so no session between pods passes 0.9 \
         Gbit/s. On shorter links sessions share senders and receivers, and fewer than a fifth have their links for \
         themselves at 2,000 a second: at 500 a second 0.58 of 2,000 sessions pass 0.9 \
         (bench/record/2026-11-25-figures.md), of the quick record's 40 0.35. SCDP is above NDP's better way to \
         write: 1.1 times its daisy chain when light, and 1.2 times when heavy, there its daisy chain in the quick \
         record and its multi-unicast at 2,000 sessions.",
    ),
    (
        "scdp-6",
        "A block from several senders is decoded at its end even if nothing was lost, and at the paper's 1.3 Gbit/s \
         that takes a tenth of a 1 MB read. With the measured speed of our codec the share above 0.9 Gbit/s is the \
         paper's. The background is faster than the paper's as long as its hosts are kept out of the foreground, as \
         the authors' models do.",
    ),
    (
        "scdp-7",
        "Flows up to 100 KB hold sizes whose times on the wire differ so much that the 99th percentile is twice the \
         mean in an empty network (2.2 in the quick record), and four times at load 0.5 with 20,000 sessions, for all \
         three protocols alike (bench/record/2026-11-23-figures.md). The ratio of NDP to SCDP is the paper's, though \
         the absolute times leave no room for 100 KB at 1 Gbit/s. PIAS depends on a marking threshold and a least \
         timeout that the paper does not state.",
    ),
    (
        "scdp-8",
        "Data mining has more flows of a packet or two than web search, so more of its short flows fit into the first \
         window. SCDP's mean completion time is at most NDP's at the one load of the quick record, and at three loads \
         with 4,000 sessions (bench/record/2026-11-25-figures.md). Long flows decide how long a run takes and not \
         what the figure shows.",
    ),
    (
        "scdp-9",
        "With ten times the link rate short flows are about ten times as fast, but propagation is not the same: the \
         runs at 10 Gbit/s have 1 us a link, Fig. 7's at 1 Gbit/s 10 us. The window must grow with bandwidth times \
         round trip, so both 12 and 32 symbols are run. With 12 SCDP leads at load 0.5, and at 0.9 it leads in the \
         quick record (60 sessions) and is 7 % behind in 4,000 sessions (bench/record/2026-11-24-figures.md), with 32 \
         it is behind at both loads: the paper has it ahead at both.",
    ),
    (
        "scdp-10",
        "Storage traffic as a background instead of endless flows hardly changes the tail of short flows, for SCDP as \
         in the paper and for NDP against it. In a buffer that all classes share, packets of every class are trimmed, \
         which hides the classes. With a queue a class NDP's tail grows by more than the paper's quarter (by 1.42 \
         times up to 17 KB in 4,000 sessions, bench/record/2026-11-24-figures.md).",
    ),
    (
        "scdp-11",
        "Storage traffic under data mining hardly changes a tail of this figure's rows, of which NDP's should grow. \
         Most of its flows fit into the initial window, which travels in the top class. In a queue for each class, \
         which no row here has, NDP's tail up to 17 KB grew by a third and NDP+'s by a half (4,000 sessions, one \
         seed, bench/record/2026-11-25-figures.md).",
    ),
    (
        "scdp-12a",
        "Trimming and pulls keep an incast at the link's rate whatever the number of senders, where TCP waits for \
         timeouts. With four senders of 70 KB the last block's decoding at 1.3 Gbit/s is a visible part of the whole. \
         Goodput is below NDP's in all eight cases, and the median completion time slightly above it, against the paper's \
         order.",
    ),
    (
        "scdp-12d",
        "Two near flows send more each than twelve far ones, sink a class earlier, and then wait, which is a part of \
         what makes the groups unequal. With all flows in one class they come nearer, and nearer still if decoding \
         takes no time, but the far group stays beyond the range around the paper's 435. TCP's total is decided by \
         the least timeout, and its order is that of ns-3, opposite to the paper's.",
    ),
    (
        "scdp-13",
        "Goodput rises with the window until the window fills bandwidth times round trip, about 16 packets with 10 us \
         a link and 8 with 1 us. Larger windows cost trims in the first round trip and hardly any goodput, as pulls \
         pace everything after it. The paper's trims come near with a pull every 12 us, 3 % faster than packets leave.",
    ),
    (
        "scdp-14",
        "The share of sessions that decode grows with load, since a single trimmed symbol of a block means decoding. \
         The paper's jump from load 0.6 to 0.7 is eightfold, and ours is about twofold in the record (0.0116 to \
         0.0238) and less in every other reading (bench/record/2026-11-25-figures.md). That difference is not \
         explained.",
    ),
    (
        "scdp-15",
        "The window for the full rate is bandwidth times round trip to a packet at every rate and delay. With the \
         paper's 10 us a link it is larger than the paper's values, by more the faster the link. No single delay gives \
         all three of them.",
    ),
    (
        "scdp-16",
        "Pulls at the full rate of the link leave no room for the pulls that come in, a twenty-fifth of the link, so \
         symbols of a group are trimmed that others received. If pulls leave that room, as ours do over UDP, the \
         overhead at 2,000 sessions is the paper's (0.009; 0.034 without, bench/record/2026-11-25-figures.md). There \
         it grows with load for objects of 1 MB and not for those of 4 MB, of which the quick record's 40 sessions \
         have a twentieth of the overhead.",
    ),
    (
        "scdp-17",
        "Flows share a link evenly within a few round trips, since the receiver pulls in turn. A new flow is in a \
         higher class until it has sent 10 MB, and is served before the others for that long. In one class the shares \
         differ by less than a hundredth.",
    ),
    (
        "polyraptor-1a",
        "Multicast sends three replicas over the client's link once, and then the slowest of three receivers decides. \
         At 2,560 writes of 4 MB a second their links are offered more than they carry: of 10,000 writes three \
         replicas have 0.039 of one's median (bench/record/2026-11-25-figures.md), of the quick record's 60 0.767. At \
         an eighth of the rate it is 0.79 of one's with 10,000 writes and 0.82 with 60, below the paper's \"about \
         equal\".",
    ),
    (
        "polyraptor-1b",
        "Reading from three servers at once is at least as fast as from one, since whichever server is idle sends. \
         TCP that fetches a third from each waits for the slowest of three. The more servers, the less a single busy \
         one matters.",
    ),
    (
        "polyraptor-1c",
        "The goodput of an incast stays at the link's rate while TCP collapses, and does as shipped, where 70 senders of \
         70 KB have 0.95 of the wire. Short transfers from few senders pay for the first round trip and for decoding \
         the last block. Larger blocks hide both.",
    ),
    (
        "lttp-4",
        "TCP stops until its retransmission timer, 200 ms after the outage, and then starts from one segment. LTTP \
         sends on through the outage and lowers its rate when the receiver's report says so. Both instants are the \
         paper's within the tolerance.",
    ),
    (
        "lttp-5",
        "The improved decoder is what makes LT codes usable at small k: the standard one discards most packets. \
         Elimination, which is shipped, needs fewer symbols still. The 7 % of Table I are not reached by belief \
         propagation at these sizes.",
    ),
    (
        "lttp-6",
        "LTTP's goodput is flat in the number of servers, where TCP dips below half of the link from 12 to 14 senders on \
         and stays there from 22 to 26 on, by size. Belief propagation needs a quarter to \
         a third more symbols than a block has, which bounds goodput below the paper's 770 Mbit/s. Our TCP, told to \
         halve its window as ns-2's does and not what is in flight, drops segment for segment what ns-2 drops.",
    ),
    (
        "lttp-7",
        "DCTCP keeps queues short until the senders' least windows alone overflow the port. Where it collapses depends \
         on the initial window, which the paper does not state; 4 fits. Below that its goodput is the paper's plateau.",
    ),
    (
        "lttp-8",
        "The paper shows a timeout with 16 senders, where its own Fig. 7 has no collapse below 25. With 16 senders \
         and the initial window that fits Fig. 7 there is none here either. With 24 senders and that window it is two \
         segments at timeouts, where the paper has 2.9.",
    ),
    (
        "lttp-9",
        "In a Fat-Tree LTTP is as flat as on one switch and bounded by its code's overhead. DCTCP is near the link's \
         rate until its senders' least windows overflow the last port. Round trips are 100, 200 and 300 us exactly.",
    ),
    (
        "lttp-10",
        "LTTP flows share a link evenly among themselves. Beside TCP with a least timeout of 200 ms and a port of 64 \
         KiB they take more than their share, as TFRC does not stop where NewReno waits for its timer. A deeper port or \
         a shorter least timeout moves the shares towards one.",
    ),
    (
        "lttp-table1",
        "Belief propagation needs a third more bytes than the block at k = 64 to 256, degrees and indices included, \
         and elimination 10, 7 and 5 %. The 6 to 8 % of Table I are out of reach of the first, and the second is \
         within the range at k = 64 and 128 and below it at 256. So the table describes another decoder than the text \
         does, which is not shown to be elimination at k = 256.",
    ),
    (
        "lttp-vb",
        "The constant c of the robust soliton distribution matters most, and is best below 1, as the paper finds. The \
         failure probability delta has an effect where c is small. From c = 1 on most packets are of degree one and \
         the code is of no use.",
    ),
    (
        "lttp-ns2",
        "Our TFRC over the same link has the goodput of TFRC in ns-2.35 within a tenth in the mean. Single points \
         differ by up to a third, as starts decide which sender loses first. The two were compared with a fixed code \
         overhead, so that only the rate control differs.",
    ),
    (
        "scdp-raptorq",
        "A block decodes from exactly K symbols in all but one case of about 160, and each symbol more makes failures \
         hundreds of times rarer. At K + 2 none of a million blocks failed, and the paper assumes one. The simulated receiver draws failures from one probability at any count, so that a block taken at K fails too \
         rarely there.",
    ),
    (
        "maelstrom-8",
        "Layered interleaving recovers at least as much as Reed-Solomon of the same rate up to a tenth of loss, for XORs \
         alone. The paper's bound is kept at every loss. From 3 % on the layers are ahead, at 5 and 10 % by more than \
         the paper's curves, which are very close: a packet that one layer recovers completes an XOR of another.",
    ),
    (
        "maelstrom-9",
        "With repair, Reno over 50 ms keeps up to about two per cent of loss what the code leaves it where nothing is \
         lost, 8/11 of the link, and Reno alone has a hundredth at one per cent. The paper holds the graphs by delay \
         against TCP without loss and without a code, which fills our link up to 100 ms, so that a pair at (8,3) \
         stays at seven tenths of it. CUBIC gains as much, and BBR, which ignores random loss, gains at ten per cent \
         alone.",
    ),
    (
        "maelstrom-10",
        "Eight flows at 1 Gbit/s are the paper's second link. With repair they have seven tenths of TCP's rate \
         without loss up to 100 ms, which is what the code leaves, and at 250 ms a half and a third, which is not. A \
         busy machine shows here first, since its appliances miss packets that they have no time for.",
    ),
    (
        "maelstrom-11",
        "A slow stream is delivered at about the one-way delay with repair, since a lost packet comes back within an \
         interleave of the fast flow beside it. TCP alone waits for a round trip or more at each loss. The longer the \
         link, the greater the difference.",
    ),
    (
        "maelstrom-12",
        "A single loss delays all messages behind it until TCP has retransmitted: in the record some twenty in the \
         mean at 50 ms and hundreds in the longest run alone, and at 100 ms the stream never caught up. With repair \
         there is no such run of late messages. Single late messages remain on a busy machine.",
    ),
    (
        "maelstrom-13",
        "Interleaves without common divisors put two packets of one XOR into the same XOR of another layer less often. \
         That matters once losses are dense. At low loss the two sets are alike.",
    ),
    (
        "maelstrom-14",
        "The larger the interleave, the longer the bursts that are recovered, and the later. (1,19,41) recovers almost \
         all of a burst of 25 within some 59 ms, where the paper has 45. Single losses come back from the first layer within three packets' \
         time.",
    ),
    (
        "maelstrom-15",
        "Reed-Solomon with interleave makes every recovery equally late. Layers recover single losses almost at once \
         and only bursts late, from the same number of repairs. If bursts take repairs too, neither recovers all, which \
         the paper does not discuss.",
    ),
    (
        "maelstrom-16",
        "Recovery latency has one mode a layer. Longer bursts move recoveries from the first layer to the second and \
         third. The greatest latency is the reach of the last interleave.",
    ),
    (
        "maelstrom-17",
        "With interleaves of 19 and 41 the modes lie further apart than with 11 and 19. Bursts of 20 and 40 are \
         recovered that the smaller ones lose. The price is latency in the last layer only.",
    ),
    (
        "maelstrom-bursts",
        "Bursts of loss are what block codes over a few packets cannot repair and layers can. The code whose last layer \
         reaches beyond the burst is above no code at all. BBR alone takes rare bursts for random loss.",
    ),
    (
        "maelstrom-clean",
        "Where nothing is lost the adaptive pair adds two per cent of the bytes in twenty seconds, all in the first four, \
         before the link is known to lose nothing. A neighbour that is not protected keeps its share, since drops of the \
         queue are left to the hosts. Of Reno the queue drops as much as without it, of CUBIC a third more and of BBR two \
         fifths: what repairs give back lets their startup go on.",
    ),
    (
        "maelstrom-losing",
        "The sliding window has the highest rate with the least overhead on every link that loses, for Reno and CUBIC, \
         and its worst seed has three quarters of it. Fixed codes are limited by their own overhead, and under \
         bursts by flows that were caught while slow. BBR, which does not take random loss for congestion, is faster alone.",
    ),
    (
        "maelstrom-changing",
        "Five seconds after each change the adaptive pair is at least as fast as the best fixed choice, as long as \
         packets are lost. When losses end, the code goes off, and the flow has what it has without appliances. A fixed \
         code pays its overhead in every phase.",
    ),
    (
        "maelstrom-thin",
        "A stream of small messages beside one of 10 Mbit/s is delivered within a few tens of milliseconds of the way, \
         where TCP alone needs a round trip or more for each loss. Short fetches under bursts take about as long as \
         without loss. The longest of them still waits for a retransmission.",
    ),
    (
        "maelstrom-4.6",
        "One core encodes far more than the kernel module of 2008 did. A pair of appliances in one machine shares its \
         cores with the hosts and the link, so the pair is measured and not the code. The row on denied processor \
         time says whether a run is to be believed.",
    ),
    (
        "maelstrom-4.7",
        "Memory is that of the packets within the interleaves' reach. At the paper's settings a buffer and an appliance \
         stay within the paper's sizes. It does not grow with the number of flows.",
    ),
    (
        "open-sources",
        "From several senders it matters that no share is fixed in advance: NDP in pieces is SCDP's equal while the slow \
         hosts have a quarter of the rate, and takes three fifths longer at a twentieth, where fixed thirds take eight \
         times as long. To several receivers fresh symbols are better where much is lost: at half the load NDP repeats \
         four tenths of what is needed to the group, of use to one receiver, and a write takes 2.8 times as long as \
         SCDP's. At a tenth of the load they are alike.",
    ),
    (
        "open-switches",
        "Nearly nothing is lost: with all of it together the goodput of writes and reads stays within a few percent \
         of that on the paper's switch, and fewer classes even help the slowest writes. Trims of 256 bytes add a \
         tenth to the symbols that nobody needed, which are few. With three classes flows up to 100 KB stay as fast, \
         and flows of 1 to 10 MB lose a few percent to longer ones.",
    ),
    (
        "open-stragglers",
        "A group that waits for its slow member has that member's pace. Detached, the others keep six to eight tenths \
         of their rate as soon as the member takes less than about a fifth of it, and to judge by backlog alone is a \
         little slower or the same. The detached member keeps most of its link where switches drop; where they trim \
         it had a tenth of it in these runs, as the simulator kept it in the group's tree, which is mended since: 20 MB \
         over 100 Mbit/s take 1.8 s where they took 20.",
    ),
    (
        "open-rates",
        "If decoding took no time, SCDP would be NDP's equal at every rate here, where all hosts are \
         alike: the time of decoding is what fresh symbols cost. With our codec on a Zen 5 that is a fiftieth of \
         the goodput at 10 Gbit/s, a fifteenth at 40, a sixth at 100 and nearly half at 400, and on a Zen 3 two to \
         three times as much. Against a read from one host coding pays up to 100 Gbit/s on a Zen 5 and to less \
         than 40 on a Zen 3, and at 400 on neither.",
    ),
    (
        "open-thresholds",
        "Thresholds hardly matter: over a range of 256 to 1 the mean completion time of all flows and of short ones \
         moves by a few percent at most. A window below bandwidth times delay nearly doubles it, and one four times \
         as large moves it by about a tenth. So a static choice gives up next to nothing here: \
         thresholds by PIAS's solver make all flows faster by 0.5 to 1.5 % and those up to 100 KB slower by 1.5 to 2.5 %.",
    ),
    (
        "open-lttp-tcp",
        "The two come near equal shares in a narrow band alone: at round trips of 0.1 ms in ports of 256 to 512 KiB, \
         where LTTP has 1.2 to 1.4 times TCP's rate, and at 1 ms in shallow ports, where it has 0.6 to 0.7. In \
         shallower ports at 0.1 ms TCP starves, as it has windows of a few segments and waits for its least timeout. \
         Everywhere else TCP has more, twice as much at 4 ms and up to twenty times as much in deep ports at 40 ms.",
    ),
    (
        "open-hotspots",
        "SCDP and NDP spread packets over all paths, so a slow link, a lost switch or a thinner core costs their \
         reads a few percent, and TCP up to a fifth, with a tail of a second and more. Writes lose more: along NDP's \
         daisy chains the slow link halves the goodput of the slowest twentieth, of SCDP's it takes a tenth (NDP's \
         paper avoids paths that trim more, which is not simulated). Reads from three senders always decode, and of \
         writes four in five do undisturbed and up to nine in ten at a hotspot.",
    ),
    (
        "open-storage",
        "Quiet, SCDP and NDP have about the same medians and tails, and the tail of TCP is a multiple of its least \
         timeout. A rebuild makes the tails of SCDP and NDP three to four times as long, though it travels in the \
         lowest class, and hardly moves the median of reads. SCDP's rebuild itself copies about twice as fast as \
         NDP's, so the cluster is disturbed for half as long; the rows of a lost rack are still to be run.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FIGURES;

    #[test]
    fn conclusions_are_three_sentences_about_figures_that_there_are() {
        for (name, text) in LEARNT {
            // These figures are simulated by the appliance, which is built by a feature.
            let simulated =
                ["maelstrom-clean", "maelstrom-losing", "maelstrom-changing", "maelstrom-thin"];
            if cfg!(not(feature = "long-link")) && simulated.contains(name) {
                continue;
            }
            assert!(FIGURES.iter().any(|figure| figure.name == *name), "{name}");
            assert_eq!(learnt(name), *text, "twice");
            let ends = text.match_indices(". ").filter(|(at, _)| {
                // "Fig. 7" and the like end no sentence.
                let before = &text[..*at];
                !before.ends_with("Fig") && !before.ends_with("Figs")
            });
            assert_eq!(ends.count(), 2, "{name}: {text}");
            assert!(text.ends_with('.'), "{name}: {text}");
        }
        assert_eq!(learnt("scdp-99"), "");
    }
}
