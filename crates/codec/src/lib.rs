//! Erasure codecs of Wellspring: RaptorQ (RFC 6330), bytes in and bytes out
