//! What candle says, and what has only gone through it.

use candle_core::Error as Said;

use crate::error::Error;

impl From<Said> for Error {
    /// An error of consort's that an operation has given to candle comes out as itself.
    fn from(error: Said) -> Self {
        ours(error).unwrap_or_else(|said| Self::Candle(said.into()))
    }
}

/// Why something failed, for other ranks: without the backtrace that candle shows on this one.
pub(crate) fn reason(error: &Error) -> String {
    let Error::Candle(said) = error else { return error.to_string() };
    without_backtrace(said)
}

/// What candle says, and not where it says so.
pub(crate) fn without_backtrace(mut said: &Said) -> String {
    while let Said::WithBacktrace { inner, .. } = said {
        said = inner;
    }
    said.to_string()
}

/// The error of consort's that is in one of candle's, or the latter if there is none.
fn ours(error: Said) -> Result<Error, Said> {
    match error {
        Said::WithBacktrace { inner, backtrace } => {
            ours(*inner).map_err(|inner| Said::WithBacktrace { inner: Box::new(inner), backtrace })
        }
        Said::Context { inner, context } => {
            ours(*inner).map_err(|inner| Said::Context { inner: Box::new(inner), context })
        }
        Said::WrappedContext { wrapped, context } => match wrapped.downcast::<Error>() {
            Ok(own) => Ok(*own),
            Err(wrapped) => match wrapped.downcast::<consort::Error>() {
                Ok(of_group) => Ok(Error::Group(*of_group)),
                Err(wrapped) => Err(Said::WrappedContext { wrapped, context }),
            },
        },
        other => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Context;

    use super::*;

    #[test]
    fn an_error_that_went_through_candle_comes_out_as_itself() {
        let own: Result<(), Error> = Err(Error::Twice { name: "weight".to_owned() });
        let said = own.context("in backward").unwrap_err().context("further out");
        assert!(matches!(Error::from(said), Error::Twice { name } if name == "weight"));
        let of_group: Result<(), consort::Error> = Err(consort::Error::Argument("no".to_owned()));
        let said = of_group.context("in forward").unwrap_err().bt();
        assert!(matches!(Error::from(said), Error::Group(_)));
    }

    #[test]
    fn a_reason_has_no_backtrace() {
        let backtrace = Box::new(std::backtrace::Backtrace::force_capture());
        let inner = Box::new(Said::Msg("no water".to_owned()));
        let error = Error::from(Said::WithBacktrace { inner, backtrace });
        assert_eq!(reason(&error), "no water");
        assert_ne!(error.to_string(), "no water");
    }

    #[test]
    fn what_candle_says_stays_as_it_is() {
        let other: Result<(), std::fmt::Error> = Err(std::fmt::Error);
        let said = other.context("elsewhere").unwrap_err().context("further out");
        let words = said.to_string();
        let error = Error::from(said);
        assert!(matches!(error, Error::Candle(_)) && error.to_string() == words, "{error}");
    }
}
