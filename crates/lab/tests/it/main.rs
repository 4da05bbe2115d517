//! Tests of the command, by its binary.

mod fec;
mod reproduce;
mod sim;
mod support;
