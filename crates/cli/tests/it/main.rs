//! Tests of the command, by its binary.

mod demo;
mod doctor;
mod documents;
mod fec;
mod get;
mod keys;
mod lab;
mod lttp;
mod maelstrom;
mod maelstrom_ipv6;
mod maelstrom_links;
mod maelstrom_metrics;
mod maelstrom_roles;
mod maelstrom_site;
mod maelstrom_split;
mod maelstrom_unit;
mod mistakes;
mod operation;
mod packaging;
mod put;
mod replicas;
mod support;
mod switch;
mod trees;
mod tutorial;
mod ui;
