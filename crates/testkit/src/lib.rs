//! Contract checker, virtual network and fault rules for tests of Wellspring endpoints
