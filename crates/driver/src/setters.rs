//! Setters of configurations, so that they can be built in one expression.

/// Writes, for each field that is named, a method of that name which takes a value and gives the
/// configuration back.
#[macro_export]
macro_rules! setters {
    ($name:ty { $($field:ident: $kind:ty),* $(,)? }) => {
        impl $name {
            $(
                #[doc = concat!("The same with another `", stringify!($field), "`.")]
                #[must_use]
                pub fn $field(mut self, $field: $kind) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}
