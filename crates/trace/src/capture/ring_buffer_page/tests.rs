//! Pages made by hand.
