//! Counters, declared once: their names, sums and differences follow from the declaration.

/// A struct of counters. Each is a `u64` and listed under its own name.
#[macro_export]
macro_rules! counters {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$of:meta])* $field:ident,)*
    }) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$of])* pub $field: u64,)*
        }

        impl $name {
            /// Every counter with its name.
            pub fn list(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
            /// Counts in the order of [`Self::list`]; none for what is missing.
            pub fn of_list(values: &[u64]) -> $name {
                let mut values = values.iter().copied();
                $name { $($field: values.next().unwrap_or(0)),* }
            }
            /// What was counted after `before`.
            pub fn since(&self, before: &$name) -> $name {
                $name { $($field: self.$field - before.$field),* }
            }
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                $(self.$field += other.$field;)*
            }
        }
    };
}
