//! Tests of the command, by its binary.

mod fec;
mod lab;
mod reproduce;
mod sim;
mod support;
