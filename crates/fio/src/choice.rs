//! Options that take one of a few words, as enums.

use crate::error::ValueError;
use wordline_base::nearest;

/// An enum whose values have fio's spelling.
pub trait Choice: Copy + Sized + 'static {
    /// Every accepted word with its value; the first of a value is its name.
    const WORDS: &'static [(&'static str, Self)];

    fn parse(word: &str) -> Result<Self, ValueError> {
        match Self::WORDS.iter().find(|(w, _)| *w == word) {
            Some(&(_, value)) => Ok(value),
            None => Err(unknown(word, Self::WORDS.iter().map(|(w, _)| *w))),
        }
    }
}

/// `'seqwrite' is not one of read, write, ..., did you mean ...?`
pub fn unknown(word: &str, known: impl Iterator<Item = &'static str>) -> ValueError {
    let known: Vec<&str> = known.collect();
    let near = nearest(word, known.iter().copied());
    ValueError::Word { word: word.into(), known, near }
}

/// Declares a [`Choice`]; the first variant is the default.
macro_rules! choices {
    ($(#[$meta:meta])* $name:ident { $first:ident = $first_word:literal $(| $first_alias:literal)*
        $(, $(#[$vmeta:meta])* $variant:ident = $word:literal $(| $alias:literal)*)* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub enum $name {
            #[doc = concat!("`", $first_word, "` in a job file.")]
            #[default]
            $first,
            $($(#[$vmeta])* #[doc = concat!("`", $word, "` in a job file.")] $variant,)*
        }

        impl $crate::choice::Choice for $name {
            const WORDS: &'static [(&'static str, Self)] = &[
                ($first_word, $name::$first), $(($first_alias, $name::$first),)*
                $(($word, $name::$variant), $(($alias, $name::$variant),)*)*
            ];
        }

        impl $name {
            /// fio's spelling.
            pub fn name(self) -> &'static str {
                match self { $name::$first => $first_word, $($name::$variant => $word,)* }
            }
        }
    };
}
pub(crate) use choices;
