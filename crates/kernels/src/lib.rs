//! XOR and GF(256) multiply-add over byte slices, one file per instruction set, dispatched at run time
