//! Sans-I/O transport state machines of Wellspring
