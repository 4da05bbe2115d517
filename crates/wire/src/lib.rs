//! Header values of the Wellspring protocols and their byte layout
