-- Wireshark dissectors for what Wellspring sends: SCDP, NDP and LTTP packets, control messages, the handshake and
-- sealed datagrams (UDP), LTTP's control channel (TCP), and Maelstrom's datagrams between appliances (UDP).
--
-- Install: copy this file into the folder of "Personal Lua Plugins" (Help, About Wireshark, Folders), or
--   tshark -X lua_script:wellspring.lua -r capture.pcapng
-- Ports: 4711 and 4712 (groups), Maelstrom 4714. Other ports are recognised by their checksums.
--
-- Layouts: the pages "SCDP", "NDP", "LTTP", "Control messages", "Keys and security" and "Maelstrom" of the book.

local HOST_PORTS, MAELSTROM_PORT = { 4711, 4712 }, 4714
local VERSION_OF_PACKETS, VERSION_OF_REQUESTS, VERSION_OF_LTTP_MESSAGES, VERSION_OF_MAELSTROM = 1, 2, 2, 3

local band, bxor, lshift, rshift = bit.band, bit.bxor, bit.lshift, bit.rshift

local wellspring = Proto("wellspring", "Wellspring")
local maelstrom = Proto("maelstrom", "Maelstrom")

local KINDS = {
  [0] = "SCDP symbol", [1] = "SCDP pull", [2] = "SCDP close",
  [3] = "LTTP symbol", [4] = "LTTP report", [5] = "LTTP hello", [6] = "NDP",
  [8] = "request", [9] = "reply",
  [10] = "handshake hello", [11] = "handshake retry", [12] = "handshake initiation", [13] = "handshake response",
  [14] = "sealed", [15] = "handshake refusal",
}
local MODES = { [0] = "unicast", [1] = "one-to-many", [2] = "many-to-one" }
local CLOSE_REASONS = {
  [1] = "unknown session", [2] = "cancelled", [3] = "refused", [4] = "detached", [5] = "complete",
}
local NDP_TYPES = { [0] = "data", [1] = "ACK", [2] = "NACK", [3] = "pull", [4] = "done", [5] = "close" }
local REQUESTS = {
  [0] = "info", [1] = "start", [2] = "offer", [3] = "status", [4] = "start by NDP", [5] = "manifest", [6] = "held blocks",
  [7] = "path", [8] = "group key", [9] = "probe",
}
local REPLIES = {
  [0] = "info", [1] = "challenge", [2] = "pending", [3] = "accepted", [4] = "refused", [5] = "status", [6] = "manifest",
  [7] = "held blocks", [8] = "probe",
}
local REFUSALS = {
  [1] = "no such object", [2] = "object changed", [3] = "no objects taken", [4] = "exists", [5] = "name not allowed",
  [6] = "too large", [7] = "no room", [8] = "busy", [9] = "session number in use", [10] = "not possible here",
  [11] = "server failed", [12] = "wrong digest", [13] = "too slow",
}
local PUT_STATES = {
  [0] = "unknown", [1] = "receiving", [2] = "complete", [3] = "failed", [4] = "receiving, by unicast",
}
local LTTP_MESSAGES = {
  [0] = "request", [1] = "pending", [2] = "granted", [3] = "parameters", [4] = "stop", [5] = "stopped", [6] = "close",
  [7] = "refused",
}
local MAELSTROM_KINDS = {
  [1] = "repair", [2] = "report", [3] = "hello", [4] = "bundle", [5] = "digest", [6] = "probe", [7] = "sliding repair",
  [8] = "block repair",
}

-- Fields, by the short names that the dissectors below use.
local f = {
  version = ProtoField.uint8("wellspring.version", "Version", base.DEC, nil, 0xf0),
  kind = ProtoField.uint8("wellspring.kind", "Kind", base.DEC, KINDS, 0x0f),
  check = ProtoField.uint16("wellspring.check", "Checksum", base.HEX),
  check_good = ProtoField.bool("wellspring.check.good", "Checksum is right"),
  session = ProtoField.uint32("wellspring.session", "Session", base.HEX),
  trimmed = ProtoField.bool("wellspring.trimmed", "Trimmed header"),
  sealed = ProtoField.bool("wellspring.sealed", "Sealed"),
  payload = ProtoField.bytes("wellspring.payload", "Payload"),
  payload_len = ProtoField.uint16("wellspring.payload_len", "Payload length (bytes)"),
  header_tag = ProtoField.bytes("wellspring.header_tag", "Authentication tag of the header"),
  channel = ProtoField.uint8("wellspring.channel", "Channel"),
  counter = ProtoField.uint64("wellspring.counter", "Counter"),

  priority = ProtoField.uint8("wellspring.scdp.priority", "Priority", base.DEC, nil, 0xf8),
  options = ProtoField.bool("wellspring.scdp.options", "Options", 8, nil, 0x04),
  directed = ProtoField.bool("wellspring.scdp.directed", "First symbol named", 8, nil, 0x04),
  fin = ProtoField.bool("wellspring.scdp.fin", "Fin", 8, nil, 0x02),
  syn = ProtoField.bool("wellspring.scdp.syn", "Syn", 8, nil, 0x01),
  from_receiver = ProtoField.bool("wellspring.scdp.from_receiver", "From the receiver", 8, nil, 0x01),
  sbn = ProtoField.uint32("wellspring.scdp.sbn", "Source block number (SBN)"),
  esi = ProtoField.uint24("wellspring.scdp.esi", "Encoding symbol ID (ESI)"),
  number = ProtoField.uint32("wellspring.scdp.number", "Packet number"),
  second_check = ProtoField.uint8("wellspring.scdp.second_check", "Checksum of bytes 16 to 23", base.HEX),
  options_check = ProtoField.uint8("wellspring.scdp.options_check", "Checksum of the options", base.HEX),
  number_low = ProtoField.uint8("wellspring.scdp.number_low", "Packet number modulo 256"),
  epoch = ProtoField.uint8("wellspring.scdp.epoch", "Epoch"),
  granted = ProtoField.uint32("wellspring.scdp.granted", "Highest packet number granted"),
  floor = ProtoField.uint32("wellspring.scdp.floor", "Lowest incomplete block"),
  run = ProtoField.uint16("wellspring.scdp.run", "Run (credits for this block)"),
  first = ProtoField.uint32("wellspring.scdp.first", "First ESI of the run"),
  reason = ProtoField.uint32("wellspring.scdp.reason", "Reason", base.DEC, CLOSE_REASONS),
  transfer_len = ProtoField.uint64("wellspring.scdp.transfer_len", "Transfer length F (bytes)"),
  blocks = ProtoField.uint32("wellspring.scdp.source_blocks", "Source blocks Z"),
  symbol_size = ProtoField.uint16("wellspring.scdp.symbol_size", "Symbol size T (bytes)"),
  mode = ProtoField.uint8("wellspring.scdp.mode", "Transfer mode", base.DEC, MODES),
  window = ProtoField.uint8("wellspring.scdp.initial_window", "Initial window w (symbols)"),
  digest = ProtoField.bytes("wellspring.digest", "Digest (BLAKE3)"),

  ndp_type = ProtoField.uint8("wellspring.ndp.type", "Type", base.DEC, NDP_TYPES, 0x7f),
  ndp_number = ProtoField.uint32("wellspring.ndp.number", "Packet number"),
  ndp_total = ProtoField.uint32("wellspring.ndp.packets", "Packets of the flow"),
  ndp_window = ProtoField.uint16("wellspring.ndp.window", "Initial window (packets)"),
  ndp_vanished = ProtoField.uint32("wellspring.ndp.vanished", "Packets given up for lost"),
  ndp_granted = ProtoField.uint32("wellspring.ndp.granted", "Packets granted"),
  sent = ProtoField.uint64("wellspring.sent", "Time sent (ps, sender's clock)"),
  rtt = ProtoField.double("wellspring.rtt", "Sender's round trip (s)"),

  lttp_cookie = ProtoField.uint64("wellspring.lttp.cookie", "Cookie", base.HEX),
  lttp_sbn = ProtoField.uint32("wellspring.lttp.block", "Block"),
  lttp_esi = ProtoField.uint32("wellspring.lttp.esi", "Encoding symbol ID"),
  lttp_number = ProtoField.uint32("wellspring.lttp.number", "Packet number"),
  lttp_delay = ProtoField.double("wellspring.lttp.delay", "Delay until the report (s)"),
  lttp_rate = ProtoField.uint64("wellspring.lttp.receive_rate", "Receive rate (bytes/s)"),
  lttp_loss = ProtoField.double("wellspring.lttp.loss_event_rate", "Loss event rate"),
  lttp_message = ProtoField.uint8("wellspring.lttp.message", "Message", base.DEC, LTTP_MESSAGES, 0x0f),
  lttp_len = ProtoField.uint16("wellspring.lttp.length", "Body length (bytes)"),
  lttp_offset = ProtoField.uint64("wellspring.lttp.offset", "Offset of the part (bytes)"),
  lttp_part = ProtoField.uint64("wellspring.lttp.part", "Length of the part (bytes)"),
  lttp_symbol = ProtoField.uint16("wellspring.lttp.symbol_size", "Symbol size (bytes)"),
  lttp_block_symbols = ProtoField.uint32("wellspring.lttp.block_symbols", "Source symbols of a block"),
  lttp_seed = ProtoField.uint64("wellspring.lttp.seed", "Seed of the code", base.HEX),
  lttp_next = ProtoField.uint32("wellspring.lttp.next", "First block still wanted"),

  request = ProtoField.uint8("wellspring.control.request", "Request", base.DEC, REQUESTS),
  reply = ProtoField.uint8("wellspring.control.reply", "Reply", base.DEC, REPLIES),
  length = ProtoField.uint16("wellspring.control.length", "Length of header and body (bytes)"),
  crc = ProtoField.uint32("wellspring.control.check", "Checksum (CRC-32)", base.HEX),
  nonce = ProtoField.uint64("wellspring.control.nonce", "Nonce", base.HEX),
  cookie = ProtoField.bytes("wellspring.control.cookie", "Cookie"),
  name = ProtoField.string("wellspring.control.name", "Object"),
  size = ProtoField.uint64("wellspring.control.size", "Size (bytes)"),
  per_block = ProtoField.uint32("wellspring.control.symbols_per_block", "Source symbols of a block, at most"),
  share = ProtoField.uint8("wellspring.control.share_index", "Share"),
  shares = ProtoField.uint8("wellspring.control.share_count", "Shares"),
  resume = ProtoField.bool("wellspring.control.resume", "Resumed"),
  background = ProtoField.bool("wellspring.control.background", "Background"),
  horizon = ProtoField.uint32("wellspring.control.horizon", "Blocks below may have been served in part"),
  overwrite = ProtoField.bool("wellspring.control.overwrite", "Overwrite"),
  group4 = ProtoField.ipv4("wellspring.control.group", "Multicast group"),
  group6 = ProtoField.ipv6("wellspring.control.group6", "Multicast group"),
  group_port = ProtoField.uint16("wellspring.control.group_port", "Port of the group"),
  part_offset = ProtoField.uint64("wellspring.control.part_offset", "Beginning of the part (byte)"),
  part_len = ProtoField.uint64("wellspring.control.part_len", "Length of the part (bytes)"),
  timeout = ProtoField.uint32("wellspring.control.timeout", "Waits for a silent host (ms)"),
  probe_len = ProtoField.uint16("wellspring.control.probe_len", "Length of the probe (bytes)"),
  reply_len = ProtoField.uint16("wellspring.control.reply_len", "Length of the reply (bytes)"),
  class = ProtoField.uint8("wellspring.control.class", "Traffic class", base.HEX),
  largest_back = ProtoField.uint16("wellspring.control.largest_back", "Largest UDP payload on the way back (bytes)"),
  clock = ProtoField.uint64("wellspring.control.clock", "Server's clock (us since 1970)"),
  abilities = ProtoField.uint8("wellspring.control.abilities", "What the server has and allows", base.HEX),
  log = ProtoField.uint8("wellspring.control.log", "Logarithm of the nodes' length"),
  page = ProtoField.uint64("wellspring.control.page", "Page"),
  from = ProtoField.uint32("wellspring.control.from", "Runs that end above block"),
  path = ProtoField.uint8("wellspring.control.path", "Path"),
  generation = ProtoField.uint8("wellspring.control.generation", "Generation of the key"),
  suite = ProtoField.uint8("wellspring.control.suite", "Cipher"),
  instance = ProtoField.uint32("wellspring.control.instance", "Instance of the server", base.HEX),
  done = ProtoField.uint64("wellspring.control.done", "Done (bytes)"),
  total = ProtoField.uint64("wellspring.control.total", "In all (bytes)"),
  code = ProtoField.uint8("wellspring.control.code", "Refusal", base.DEC, REFUSALS),
  text = ProtoField.string("wellspring.control.text", "Reason"),
  state = ProtoField.uint8("wellspring.control.state", "State", base.DEC, PUT_STATES),
  blocks_done = ProtoField.uint32("wellspring.control.blocks_done", "Blocks complete"),
  blocks_total = ProtoField.uint32("wellspring.control.blocks_total", "Blocks of the object"),
  node = ProtoField.bytes("wellspring.control.node", "Chaining value (BLAKE3)"),
  run_start = ProtoField.uint32("wellspring.control.run_start", "First block of a run"),
  run_end = ProtoField.uint32("wellspring.control.run_end", "Block behind the run"),
  request_in = ProtoField.framenum("wellspring.control.request_in", "Request in frame", base.NONE, frametype.REQUEST),
  reply_in = ProtoField.framenum("wellspring.control.reply_in", "Reply in frame", base.NONE, frametype.RESPONSE),
  answer_time = ProtoField.double("wellspring.control.answer_time", "Time to the reply (s)"),
  handshake_id = ProtoField.uint64("wellspring.handshake.id", "Handshake", base.HEX),
  noise = ProtoField.bytes("wellspring.handshake.noise", "Noise message"),
  key = ProtoField.bytes("wellspring.handshake.key", "Static key of the responder"),
  ciphertext = ProtoField.bytes("wellspring.ciphertext", "Ciphertext and tag"),
}

local m = {
  version = ProtoField.uint8("maelstrom.version", "Version"),
  kind = ProtoField.uint8("maelstrom.kind", "Kind", base.DEC, MAELSTROM_KINDS),
  layer = ProtoField.uint8("maelstrom.layer", "Layer"),
  seed = ProtoField.uint8("maelstrom.seed", "Seed of the factors"),
  packets = ProtoField.uint8("maelstrom.packets", "Packets named"),
  lengths = ProtoField.uint16("maelstrom.lengths", "XOR of the lengths", base.HEX),
  window = ProtoField.uint16("maelstrom.window", "Packets in the window"),
  stride = ProtoField.uint16("maelstrom.stride", "Stride"),
  first = ProtoField.uint32("maelstrom.first", "Number of the first packet"),
  begun = ProtoField.uint64("maelstrom.session.begun", "Session begun (ns since 1970)"),
  random = ProtoField.uint64("maelstrom.session.random", "Session", base.HEX),
  stamp = ProtoField.uint16("maelstrom.stamp", "Time stamp (64 us)"),
  number = ProtoField.uint64("maelstrom.number", "Datagram in the session"),
  name = ProtoField.bytes("maelstrom.name", "Packet's name"),
  body = ProtoField.bytes("maelstrom.body", "Body"),
  tag = ProtoField.bytes("maelstrom.tag", "Tag"),
  heard_packets = ProtoField.uint32("maelstrom.report.packets", "Packets"),
  heard_lost = ProtoField.uint32("maelstrom.report.lost", "Lost"),
  heard_bursts = ProtoField.uint32("maelstrom.report.bursts", "Bursts"),
  recovered = ProtoField.uint32("maelstrom.report.recovered", "Recovered"),
}

local function list_of(fields)
  local list = {}
  for _, field in pairs(fields) do list[#list + 1] = field end
  return list
end
wellspring.fields = list_of(f)
maelstrom.fields = list_of(m)

local expert = {
  check = ProtoExpert.new("wellspring.expert.check", "Wrong checksum", expert.group.CHECKSUM, expert.severity.ERROR),
  trimmed = ProtoExpert.new("wellspring.expert.trimmed", "A switch trimmed this packet", expert.group.SEQUENCE,
    expert.severity.NOTE),
  refused = ProtoExpert.new("wellspring.expert.refused", "Refused", expert.group.RESPONSE_CODE, expert.severity.WARN),
  short = ProtoExpert.new("wellspring.expert.short", "Shorter than its fields", expert.group.MALFORMED,
    expert.severity.ERROR),
}
wellspring.experts = list_of(expert)

-- CRC-16/IBM-SDLC of the ranges given: first byte, and the one behind the last.
local function crc16(bytes, ranges)
  local crc = 0xffff
  for _, range in ipairs(ranges) do
    for at = range[1], range[2] - 1 do
      crc = bxor(crc, bytes:get_index(at))
      for _ = 1, 8 do
        local low = band(crc, 1)
        crc = rshift(crc, 1)
        if low == 1 then crc = bxor(crc, 0x8408) end
      end
    end
  end
  return band(bxor(crc, 0xffff), 0xffff)
end

-- A CRC of up to 8 bits, most significant bit first, of the bytes given.
local function short_crc(bytes, width, polynomial, crc)
  local aligned = lshift(polynomial, 8 - width)
  for _, byte in ipairs(bytes) do
    crc = bxor(crc, byte)
    for _ = 1, 8 do
      local high = band(crc, 0x80)
      crc = band(lshift(crc, 1), 0xff)
      if high ~= 0 then crc = bxor(crc, aligned) end
    end
  end
  return rshift(crc, 8 - width)
end

-- Bytes that the CRC-16 of a packet covers; nil for what has none, or was cut too short.
local HEADER_LENS = { [0] = 16, [2] = 16, [3] = 36, [4] = 36, [5] = 12 }
local DIRECTED_PULL_LEN, PULL_LEN = 28, 24
local NDP_LENS = { [0] = 36, [1] = 20, [2] = 12, [3] = 12, [4] = 8, [5] = 8 }
local function checked_len(tvb)
  local kind = band(tvb(0, 1):uint(), 0x0f)
  local len = HEADER_LENS[kind]
  if kind == 6 and tvb:len() >= 2 then len = NDP_LENS[band(tvb(1, 1):uint(), 0x7f)] end
  if kind == 1 and tvb:len() >= 2 then len = band(tvb(1, 1):uint(), 4) ~= 0 and DIRECTED_PULL_LEN or PULL_LEN end
  if len and tvb:len() >= len then return len end
end

local function check_is_good(tvb, len)
  local bytes = tvb(0, len):bytes()
  -- The mark that a tag follows NDP's header is set behind the check.
  if band(bytes:get_index(0), 0x0f) == 6 then bytes:set_index(1, band(bytes:get_index(1), 0x7f)) end
  return crc16(bytes, { { 0, 2 }, { 4, len } }) == tvb(2, 2):uint()
end

local function add_check(tvb, tree)
  local len = checked_len(tvb)
  if not len then return end
  local good = check_is_good(tvb, len)
  tree:add(f.check, tvb(2, 2))
  tree:add(f.check_good, tvb(2, 2), good):set_generated()
  if not good then tree:add_proto_expert_info(expert.check) end
end

local function add_payload(tvb, tree, at)
  if tvb:len() > at then tree:add(f.payload, tvb(at)) end
end

-- Says that a packet announces more than was sent of it (what the capture left out does not count).
local function add_trimmed(tvb, tree, whole)
  local trimmed = tvb:reported_len() < whole
  tree:add(f.trimmed, tvb(0, 0), trimmed):set_generated()
  if trimmed then tree:add_proto_expert_info(expert.trimmed) end
  return trimmed and " [trimmed]" or ""
end

local function add_seal(tvb, tree, at)
  tree:add(f.header_tag, tvb(at, 8))
  if tvb:len() < at + 16 then return end
  tree:add(f.channel, tvb(at + 8, 1))
  tree:add(f.counter, tvb(at + 9, 7))
  if tvb:len() > at + 16 then tree:add(f.ciphertext, tvb(at + 16)) end
end

local function bytes_at(tvb, at, len)
  local bytes = {}
  for place = at, at + len - 1 do bytes[#bytes + 1] = tvb(place, 1):uint() end
  return bytes
end

local function add_short_check(tree, field, range, value, right)
  tree:add(field, range, value)
  tree:add(f.check_good, range, value == right):set_generated()
  if value ~= right then tree:add_proto_expert_info(expert.check) end
end

-- CRC-8/AUTOSAR of what follows a symbol's core, without the mark of a tag.
local function add_second_check(tvb, tree)
  local covered = bytes_at(tvb, 16, 3)
  for _, byte in ipairs({ tvb(20, 1):uint(), band(tvb(21, 1):uint(), 0x7f), tvb(22, 1):uint(), tvb(23, 1):uint() }) do
    covered[#covered + 1] = byte
  end
  local right = bxor(short_crc(covered, 8, 0x2f, 0xff), 0xff)
  add_short_check(tree, f.second_check, tvb(19, 1), tvb(19, 1):uint(), right)
end

-- With CRC-7/MMC of the options.
local function scdp_options(tvb, tree)
  local options = tree:add(tvb(24, 48), "Options")
  local right = short_crc(bytes_at(tvb, 24, 48), 7, 0x09, 0)
  add_short_check(options, f.options_check, tvb(21, 1), band(tvb(21, 1):uint(), 0x7f), right)
  options:add(f.transfer_len, tvb(24, 8))
  options:add(f.blocks, tvb(32, 4))
  options:add(f.symbol_size, tvb(36, 2))
  options:add(f.mode, tvb(38, 1))
  options:add(f.window, tvb(39, 1))
  options:add(f.digest, tvb(40, 32))
end

local function scdp_symbol(tvb, tree)
  local flags = tvb(1, 1):uint()
  for _, field in ipairs({ f.priority, f.options, f.fin, f.syn }) do tree:add(field, tvb(1, 1)) end
  tree:add(f.sbn, tvb(8, 4))
  tree:add(f.esi, tvb(12, 3))
  tree:add(f.number_low, tvb(15, 1))
  local what = string.format("symbol %d:%d", tvb(8, 4):uint(), tvb(12, 3):uint())
  if band(flags, 1) ~= 0 then what = what .. " syn" end
  if band(flags, 2) ~= 0 then what = what .. " fin" end
  if tvb:len() < 24 then return what .. add_trimmed(tvb, tree, 24) end
  local number = tvb(16, 3):uint() * 256 + tvb(15, 1):uint()
  tree:add(f.number, tvb(15, 4), number)
  add_second_check(tvb, tree)
  tree:add(f.epoch, tvb(20, 1))
  tree:add(f.payload_len, tvb(22, 2))
  what = what .. string.format(" number %d", number)
  local header = band(flags, 4) ~= 0 and 72 or 24
  local sealed = band(tvb(21, 1):uint(), 0x80) ~= 0
  tree:add(f.sealed, tvb(21, 1), sealed)
  if sealed then
    local trimmed = add_trimmed(tvb, tree, header + tvb(22, 2):uint() + 32)
    if tvb:len() >= 32 then add_seal(tvb, tree, 24) end
    return what .. " [sealed]" .. trimmed
  end
  if header == 72 and tvb:len() >= 72 then scdp_options(tvb, tree) end
  local trimmed = add_trimmed(tvb, tree, header + tvb(22, 2):uint())
  add_payload(tvb, tree, header)
  return what .. trimmed
end

local function scdp_pull(tvb, tree)
  tree:add(f.directed, tvb(1, 1))
  tree:add(f.fin, tvb(1, 1))
  tree:add(f.sbn, tvb(8, 4))
  tree:add(f.granted, tvb(12, 4))
  local what = string.format("pull to number %d, block %d", tvb(12, 4):uint(), tvb(8, 4):uint())
  if tvb:len() < 24 then return what end
  tree:add(f.floor, tvb(16, 4))
  tree:add(f.epoch, tvb(20, 1))
  tree:add(f.run, tvb(22, 2))
  if band(tvb(1, 1):uint(), 4) ~= 0 and tvb:len() >= 28 then tree:add(f.first, tvb(24, 4)) end
  return what .. string.format(", run %d", tvb(22, 2):uint())
end

local function scdp_close(tvb, tree)
  tree:add(f.from_receiver, tvb(1, 1))
  tree:add(f.reason, tvb(12, 4))
  return "close: " .. (CLOSE_REASONS[tvb(12, 4):uint()] or "unknown reason")
end

local function scdp(tvb, tree, kind)
  tree:add(f.session, tvb(4, 4))
  local dissect = { [0] = scdp_symbol, [1] = scdp_pull, [2] = scdp_close }
  return "SCDP", string.format("0x%08x %s", tvb(4, 4):uint(), dissect[kind](tvb, tree))
end

local function ndp_data(tvb, tree)
  tree:add(f.ndp_total, tvb(12, 4))
  tree:add(f.ndp_window, tvb(16, 2))
  tree:add(f.payload_len, tvb(18, 2))
  tree:add(f.ndp_vanished, tvb(20, 4))
  tree:add(f.sent, tvb(24, 8))
  tree:add(f.rtt, tvb(32, 4), tvb(32, 4):uint() * 1e-7)
  local sealed = band(tvb(1, 1):uint(), 0x80) ~= 0
  tree:add(f.sealed, tvb(1, 1), sealed)
  local trimmed = add_trimmed(tvb, tree, 36 + tvb(18, 2):uint() + (sealed and 32 or 0))
  if sealed and tvb:len() >= 44 then add_seal(tvb, tree, 36) elseif not sealed then add_payload(tvb, tree, 36) end
  return trimmed
end

local function ndp(tvb, tree)
  local packet_type = band(tvb(1, 1):uint(), 0x7f)
  tree:add(f.ndp_type, tvb(1, 1))
  tree:add(f.session, tvb(4, 4))
  local what = string.format("0x%08x %s", tvb(4, 4):uint(), NDP_TYPES[packet_type] or "unknown type")
  if packet_type <= 2 and tvb:len() >= 12 then
    tree:add(f.ndp_number, tvb(8, 4))
    what = what .. string.format(" %d", tvb(8, 4):uint())
  end
  if packet_type == 0 and tvb:len() >= 36 then what = what .. ndp_data(tvb, tree) end
  if packet_type == 1 and tvb:len() >= 20 then tree:add(f.sent, tvb(12, 8)) end
  if packet_type == 3 and tvb:len() >= 12 then
    tree:add(f.ndp_granted, tvb(8, 4))
    what = what .. string.format(" to %d", tvb(8, 4):uint())
  end
  return "NDP (Wellspring)", what
end

local function lttp(tvb, tree, kind)
  tree:add(f.lttp_cookie, tvb(4, 8))
  if kind == 3 then
    tree:add(f.lttp_sbn, tvb(12, 4))
    tree:add(f.lttp_esi, tvb(16, 4))
    tree:add(f.lttp_number, tvb(20, 4))
    tree:add(f.sent, tvb(24, 8))
    tree:add(f.rtt, tvb(32, 4), tvb(32, 4):uint() * 1e-7)
    add_payload(tvb, tree, 36)
    return "LTTP", string.format("symbol %d:%d number %d", tvb(12, 4):uint(), tvb(16, 4):uint(), tvb(20, 4):uint())
  elseif kind == 4 then
    tree:add(f.sent, tvb(12, 8))
    tree:add(f.lttp_delay, tvb(20, 4), tvb(20, 4):uint() * 1e-7)
    tree:add(f.lttp_rate, tvb(24, 8))
    tree:add(f.lttp_loss, tvb(32, 4), tvb(32, 4):uint() / 2 ^ 32)
    return "LTTP", string.format("report: %s bytes/s, loss event rate %.4f", tostring(tvb(24, 8):uint64()),
      tvb(32, 4):uint() / 2 ^ 32)
  end
  return "LTTP", "hello"
end

-- A cursor over the body of a control message.
local function reader(tvb, tree, at, last)
  local r = { at = at }
  function r.take(field, len, value)
    if r.at + len > last then error("short") end
    local range = tvb(r.at, len)
    if field then
      if value then tree:add(field, range, value(range)) else tree:add(field, range) end
    end
    r.at = r.at + len
    return range
  end
  function r.left() return last - r.at end
  return r
end

local function take_geometry(r)
  r.take(f.symbol_size, 2)
  r.take(f.per_block, 4)
  r.take(f.window, 1)
end

local function take_name(r)
  local len = r.take(nil, 2):uint()
  return r.take(f.name, len):string()
end

local function as_flag(mask)
  return function(range) return band(range:uint(), mask) ~= 0 end
end

local request_bodies = {
  [0] = function(r)
    take_geometry(r)
    return take_name(r)
  end,
  [1] = function(r)
    r.take(f.session, 4)
    r.take(f.digest, 32)
    take_geometry(r)
    r.take(f.share, 1)
    r.take(f.shares, 1)
    r.take(f.resume, 1, as_flag(1))
    r.at = r.at - 1
    r.take(f.background, 1, as_flag(2))
    r.take(f.epoch, 1)
    r.take(f.floor, 4)
    r.take(f.horizon, 4)
    r.take(f.timeout, 4)
    return take_name(r)
  end,
  [2] = function(r)
    r.take(f.session, 4)
    r.take(f.digest, 32)
    take_geometry(r)
    r.take(f.size, 8)
    r.take(f.mode, 1)
    local flags = r.take(nil, 1)
    r.at = r.at - 1
    r.take(f.overwrite, 1, as_flag(1))
    r.at = r.at - 1
    r.take(f.resume, 1, as_flag(2))
    r.at = r.at - 1
    r.take(f.background, 1, as_flag(4))
    local family = r.take(nil, 1):uint()
    if family == 4 then
      r.take(f.group4, 4)
      r.take(nil, 12)
    elseif family == 6 then
      r.take(f.group6, 16)
    else
      r.take(nil, 16)
    end
    if family == 0 then r.take(nil, 2) else r.take(f.group_port, 2) end
    r.take(f.timeout, 4)
    return take_name(r)
  end,
  [3] = function(r) r.take(f.session, 4) end,
  [4] = function(r)
    r.take(f.session, 4)
    r.take(f.digest, 32)
    r.take(f.payload_len, 2)
    r.take(f.part_offset, 8)
    r.take(f.part_len, 8)
    r.take(f.timeout, 4)
    return take_name(r)
  end,
  [5] = function(r)
    r.take(f.digest, 32)
    r.take(f.log, 1)
    r.take(f.page, 8)
    return take_name(r)
  end,
  [6] = function(r)
    r.take(f.session, 4)
    r.take(f.from, 4)
  end,
  [7] = function(r)
    r.take(f.session, 4)
    r.take(f.path, 1)
  end,
  [8] = function(r)
    r.take(f.session, 4)
    r.take(f.generation, 1)
    r.take(f.suite, 1)
  end,
  [9] = function(r)
    r.take(f.probe_len, 2)
    r.take(f.reply_len, 2)
    r.take(f.class, 1)
  end,
}

local reply_bodies = {
  [0] = function(r)
    r.take(f.cookie, 16)
    r.take(f.instance, 4)
    local size = r.take(f.size, 8):uint64()
    r.take(f.digest, 32)
    return tostring(size) .. " bytes"
  end,
  [1] = function(r) r.take(f.cookie, 16) end,
  [2] = function(r)
    r.take(f.done, 8)
    r.take(f.total, 8)
  end,
  [3] = function() end,
  [4] = function(r, tree)
    r.take(f.code, 1)
    local len = r.take(nil, 1):uint()
    tree:add_proto_expert_info(expert.refused)
    return r.take(f.text, len):string()
  end,
  [5] = function(r)
    local state = r.take(f.state, 1):uint()
    local code = r.take(nil, 1):uint()
    local done, total = r.take(f.blocks_done, 4):uint(), r.take(f.blocks_total, 4):uint()
    local what = PUT_STATES[state] or "unknown state"
    if state == 3 then what = what .. ": " .. (REFUSALS[code] or "unknown code") end
    return string.format("%s, %d of %d blocks", what, done, total)
  end,
  [6] = function(r) while r.left() >= 32 do r.take(f.node, 32) end end,
  [7] = function(r)
    while r.left() >= 8 do
      r.take(f.run_start, 4)
      r.take(f.run_end, 4)
    end
  end,
  [8] = function(r)
    r.take(f.reply_len, 2)
    r.take(f.class, 1)
    r.take(f.largest_back, 2)
    r.take(f.clock, 8)
    r.take(f.abilities, 1)
    local len = r.take(nil, 1):uint()
    return r.take(f.text, len):string()
  end,
}

-- First request and first reply of each nonce: frame and time.
local requests, replies = {}, {}
function wellspring.init() requests, replies = {}, {} end

local function link(tvb, pinfo, tree, is_request)
  local nonce = tostring(tvb(8, 8):bytes())
  local mine = is_request and requests or replies
  if not mine[nonce] then mine[nonce] = { frame = pinfo.number, time = pinfo.rel_ts } end
  local other = (is_request and replies or requests)[nonce]
  if not other then return end
  tree:add(is_request and f.reply_in or f.request_in, tvb(8, 8), other.frame):set_generated()
  if not is_request then
    tree:add(f.answer_time, tvb(8, 8), pinfo.rel_ts - other.time):set_generated()
  end
end

local function control(tvb, tree, kind, pinfo)
  local is_request = kind == 8
  local operation, length = tvb(1, 1):uint(), tvb(2, 2):uint()
  tree:add(is_request and f.request or f.reply, tvb(1, 1))
  tree:add(f.length, tvb(2, 2))
  tree:add(f.crc, tvb(4, 4))
  tree:add(f.nonce, tvb(8, 8))
  link(tvb, pinfo, tree, is_request)
  local r = reader(tvb, tree, 16, math.min(length, tvb:len()))
  local body = (is_request and request_bodies or reply_bodies)[operation]
  local what = ((is_request and REQUESTS or REPLIES)[operation] or "unknown operation")
  local whole, said = pcall(function()
    if is_request then r.take(f.cookie, 16) end
    return body and body(r, tree)
  end)
  if not whole then tree:add_proto_expert_info(expert.short) end
  if whole and said then what = what .. ": " .. said end
  return "Wellspring", (is_request and "request " or "reply ") .. what
end

local function handshake(tvb, tree, kind)
  if kind == 14 then
    tree:add(f.channel, tvb(8, 1))
    tree:add(f.counter, tvb(9, 7))
    if tvb:len() > 16 then tree:add(f.ciphertext, tvb(16)) end
    return "Wellspring", string.format("sealed, channel %d, counter %s", tvb(8, 1):uint(), tostring(tvb(9, 7):uint64()))
  end
  tree:add(f.handshake_id, tvb(8, 8))
  if (kind == 11 or kind == 12) and tvb:len() >= 32 then tree:add(f.cookie, tvb(16, 16)) end
  if kind == 11 and tvb:len() >= 64 then tree:add(f.key, tvb(32, 32)) end
  if kind == 12 and tvb:len() > 32 then tree:add(f.noise, tvb(32)) end
  if kind == 13 and tvb:len() > 16 then tree:add(f.noise, tvb(16)) end
  return "Wellspring", KINDS[kind]
end

local DISSECTORS = {
  [0] = scdp, [1] = scdp, [2] = scdp, [3] = lttp, [4] = lttp, [5] = lttp, [6] = ndp, [8] = control, [9] = control,
  [10] = handshake, [11] = handshake, [12] = handshake, [13] = handshake, [14] = handshake, [15] = handshake,
}
-- Bytes without which a kind says nothing.
local LEAST = {
  [0] = 16, [1] = 16, [2] = 16, [3] = 36, [4] = 36, [5] = 12, [6] = 8, [8] = 16, [9] = 16,
  [10] = 16, [11] = 16, [12] = 16, [13] = 16, [14] = 16, [15] = 16,
}

local function understood(tvb)
  if tvb:len() < 8 then return false end
  local version, kind = rshift(tvb(0, 1):uint(), 4), band(tvb(0, 1):uint(), 0x0f)
  local expected = (kind == 8 or kind == 9) and VERSION_OF_REQUESTS or VERSION_OF_PACKETS
  return version == expected and LEAST[kind] ~= nil and tvb:len() >= LEAST[kind]
end

-- Length of a packet that says it itself; nil for one that ends with its datagram.
local function own_len(tvb, kind)
  local function word(at) return tvb(at, 2):uint() end
  if kind == 0 and tvb:len() >= 24 then
    local sealed = band(tvb(21, 1):uint(), 0x80) ~= 0 and 32 or 0
    return (band(tvb(1, 1):uint(), 4) ~= 0 and 72 or 24) + word(22) + sealed
  elseif kind == 6 and tvb:len() >= 36 and band(tvb(1, 1):uint(), 0x7f) == 0 then
    return 36 + word(18) + (band(tvb(1, 1):uint(), 0x80) ~= 0 and 32 or 0)
  end
end

local function dissect_one(tvb, pinfo, root)
  local kind = band(tvb(0, 1):uint(), 0x0f)
  local tree = root:add(wellspring, tvb())
  tree:add(f.version, tvb(0, 1))
  tree:add(f.kind, tvb(0, 1))
  add_check(tvb, tree)
  local protocol, info = DISSECTORS[kind](tvb, tree, kind, pinfo)
  tree:append_text(", " .. protocol .. " " .. info)
  return protocol, info
end

-- A capture at the sender has several datagrams of one run as one, before the kernel or the card cuts it (GSO).
function wellspring.dissector(tvb, pinfo, root)
  if not understood(tvb) then return 0 end
  local rest, packets, first, protocol, info = tvb, 0, nil, nil, nil
  repeat
    local len = own_len(rest, band(rest(0, 1):uint(), 0x0f))
    local more = len and rest:len() > len
    protocol, info = dissect_one(more and rest(0, len):tvb() or rest, pinfo, root)
    first, packets = first or info, packets + 1
    rest = more and rest(len):tvb() or nil
  until not rest or not understood(rest)
  pinfo.cols.protocol = protocol
  pinfo.cols.info = packets == 1 and first or string.format("%s (and %d more)", first, packets - 1)
  return tvb:len()
end

-- On other ports: packets whose CRC-16 is right.
local function on_any_port(tvb, pinfo, root)
  if not understood(tvb) then return false end
  local len = checked_len(tvb)
  if not len or not check_is_good(tvb, len) then return false end
  wellspring.dissector(tvb, pinfo, root)
  pinfo.conversation = wellspring
  return true
end

local lttp_control = Proto("lttp_control", "LTTP control channel")

local function lttp_refused(r)
  r.take(f.code, 1)
  return r.take(f.text, r.left()):string()
end

local function take_lttp_geometry(r)
  r.take(f.lttp_symbol, 2)
  r.take(f.lttp_block_symbols, 4)
end

local lttp_bodies = {
  [0] = function(r)
    r.take(f.digest, 32)
    r.take(f.lttp_offset, 8)
    r.take(f.lttp_part, 8)
    take_lttp_geometry(r)
    r.take(f.timeout, 4)
    return r.take(f.name, r.left()):string()
  end,
  [1] = function(r)
    r.take(f.done, 8)
    r.take(f.total, 8)
  end,
  [2] = function(r)
    r.take(f.lttp_cookie, 8)
    r.take(f.lttp_seed, 8)
  end,
  [3] = function(r)
    r.take(f.lttp_part, 8)
    take_lttp_geometry(r)
  end,
  [4] = function(r) r.take(f.lttp_next, 4) end,
  [5] = function(r) r.take(f.lttp_next, 4) end,
  [6] = function() end,
  [7] = lttp_refused,
}

local function lttp_message(tvb, pinfo, root)
  local kind = band(tvb(0, 1):uint(), 0x0f)
  local tree = root:add(lttp_control, tvb())
  tree:add(f.version, tvb(0, 1))
  tree:add(f.lttp_message, tvb(0, 1))
  tree:add(f.lttp_len, tvb(2, 2))
  local r = reader(tvb, tree, 4, tvb:len())
  local whole, said = pcall(function() return lttp_bodies[kind] and lttp_bodies[kind](r) end)
  if not whole then tree:add_proto_expert_info(expert.short) end
  local what = (LTTP_MESSAGES[kind] or "unknown message") .. (whole and said and ": " .. said or "")
  tree:append_text(", " .. what)
  pinfo.cols.protocol = "LTTP"
  pinfo.cols.info = "control: " .. what
  return tvb:len()
end

function lttp_control.dissector(tvb, pinfo, root)
  if rshift(tvb(0, 1):uint(), 4) ~= VERSION_OF_LTTP_MESSAGES then return 0 end
  local function length(rest, _, at) return rest(at + 2, 2):uint() + 4 end
  dissect_tcp_pdus(tvb, root, 4, length, lttp_message)
  return tvb:len()
end

local function maelstrom_report(tvb, tree)
  for place, field in ipairs({ m.heard_packets, m.heard_lost, m.heard_bursts, m.recovered }) do
    tree:add(field, tvb(32 + 4 * place, 4))
  end
  return string.format(": %d packets, %d lost, %d recovered", tvb(36, 4):uint(), tvb(40, 4):uint(), tvb(48, 4):uint())
end

local function maelstrom_named(tvb, tree, packets, length)
  local at, last = 36, tvb:len() - 16
  for _ = 1, packets do
    if at + length > last then return end
    tree:add(m.name, tvb(at, length))
    at = at + length
  end
  if at < last then tree:add(m.body, tvb(at, last - at)) end
end

-- Bytes of a named packet in each kind that names some.
local NAMED = { [1] = 10, [5] = 4, [7] = 6, [8] = 10 }

function maelstrom.dissector(tvb, pinfo, root)
  if tvb:len() < 52 or tvb(0, 1):uint() ~= VERSION_OF_MAELSTROM then return 0 end
  local kind, packets = tvb(1, 1):uint(), tvb(3, 1):uint()
  local tree = root:add(maelstrom, tvb())
  tree:add(m.version, tvb(0, 1))
  tree:add(m.kind, tvb(1, 1))
  local what = MAELSTROM_KINDS[kind] or "unknown kind"
  if NAMED[kind] then
    tree:add(kind == 7 and m.seed or m.layer, tvb(2, 1))
    tree:add(m.packets, tvb(3, 1))
    tree:add(kind == 7 and m.window or m.lengths, tvb(4, 2))
    tree:add(m.stride, tvb(6, 2))
    tree:add(m.first, tvb(8, 4))
    what = what .. string.format(" from packet %d, %d named", tvb(8, 4):uint(), packets)
  end
  tree:add(m.begun, tvb(12, 8))
  tree:add(m.random, tvb(20, 8))
  tree:add(m.stamp, tvb(28, 2))
  tree:add(m.number, tvb(30, 6))
  if NAMED[kind] then maelstrom_named(tvb, tree, packets, NAMED[kind]) end
  if kind == 2 and tvb:len() >= 92 then what = what .. maelstrom_report(tvb, tree) end
  tree:add(m.tag, tvb(tvb:len() - 16))
  tree:append_text(", " .. what)
  pinfo.cols.protocol = "Maelstrom"
  pinfo.cols.info = what
  return tvb:len()
end

local udp, tcp = DissectorTable.get("udp.port"), DissectorTable.get("tcp.port")
for _, port in ipairs(HOST_PORTS) do udp:add(port, wellspring) end
tcp:add(HOST_PORTS[1], lttp_control)
udp:add(MAELSTROM_PORT, maelstrom)
wellspring:register_heuristic("udp", on_any_port)
