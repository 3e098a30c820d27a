//! Which memory a call works on.

use consort_sys::view::{Source, Space, Target};

use super::{Call, Inputs, Outputs};
use crate::error::{Error, Result};

impl Call<'_> {
    /// Which memory the call works on, if on any: that of the host, unless it was
    /// [named](Source::on_device) as a device's.
    ///
    /// ```
    /// use consort::{Call, Dtype, ReduceOp, Space, Target};
    ///
    /// let mut numbers = [0_u8; 8];
    /// let output = Target::from(&mut numbers[..]);
    /// let (dtype, op) = (Dtype::F32, ReduceOp::Sum);
    /// let call = Call::AllReduce { dtype, op, input: output.into(), output };
    /// assert_eq!(call.space()?, Some(Space::Host));
    /// assert_eq!(Call::Barrier.space()?, None);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] when some of it lies elsewhere than the rest.
    #[inline]
    pub fn space(&self) -> Result<Option<Space>> {
        match *self {
            Self::Barrier => Ok(None),
            Self::AllReduce { input, output, .. } => {
                same(Some(input.space()), Some(output.space()))
            }
            Self::Broadcast { buffer, .. } => Ok(Some(buffer.space())),
            Self::Reduce { input, output, .. } => {
                same(Some(input.space()), output.map(Target::space))
            }
            Self::AllGather { input, outputs, .. } => same(Some(input.space()), outputs.space()?),
            Self::Gather { input, outputs, .. } => {
                same(Some(input.space()), outputs.map_or(Ok(None), Outputs::space)?)
            }
            Self::Scatter { inputs, output, .. } => {
                same(inputs.map_or(Ok(None), Inputs::space)?, Some(output.space()))
            }
            Self::ReduceScatter { inputs, output, .. } => {
                same(inputs.space()?, Some(output.space()))
            }
            Self::AllToAll { inputs, outputs, .. } => same(inputs.space()?, outputs.space()?),
        }
    }
}

impl Inputs<'_> {
    #[inline]
    fn space(self) -> Result<Option<Space>> {
        match self {
            Self::Equal(all) => Ok(Some(all.space())),
            Self::List(parts) => all_same(parts.iter().map(|part| part.space())),
        }
    }
}

impl Outputs<'_> {
    #[inline]
    fn space(self) -> Result<Option<Space>> {
        match self {
            Self::Equal(all) => Ok(Some(all.space())),
            Self::List(parts) => all_same(parts.iter().map(|part| part.space())),
        }
    }
}

/// Where a message and the room for another lie.
///
/// # Errors
/// When that is not the same.
#[inline]
pub(crate) fn of_both(data: Option<Source<'_>>, room: Option<Target<'_>>) -> Result<Option<Space>> {
    same(data.map(Source::space), room.map(Target::space))
}

/// Where both are, if anywhere.
///
/// # Errors
/// When that is not the same.
#[inline]
pub(crate) fn same(one: Option<Space>, other: Option<Space>) -> Result<Option<Space>> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => Err(Error::Argument(format!(
            "some of its memory lies on {one} and some on {other}: it has to be all in one place"
        ))),
        _ => Ok(one.or(other)),
    }
}

fn all_same(mut spaces: impl Iterator<Item = Space>) -> Result<Option<Space>> {
    spaces.try_fold(None, |known, space| same(known, Some(space)))
}
