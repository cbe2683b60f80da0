//! Commands that make the classic mistakes.

use leastlock_lease::{Approval, Error, FencingToken, Forced};

use super::force::{Admin, approval};

/// How an operator takes a lock away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Right,
    /// Takes it from whoever has it by now.
    WithoutComparing,
    /// Takes an approval for good that was given once.
    WithoutAskingTheTime,
    /// Releases, and then writes down that it has.
    AuditLast,
}

impl Command {
    pub(crate) async fn force<R: Admin>(
        self,
        rig: &R,
        token: FencingToken,
        approved: &Approval,
    ) -> Result<Forced, Error> {
        match self {
            Self::Right => rig.force(token, approved).await,
            Self::WithoutComparing => {
                let found = rig.look().await.token.and_then(FencingToken::new);
                rig.force(found.unwrap_or(token), approved).await
            }
            Self::WithoutAskingTheTime => rig.force(token, &approval()).await,
            Self::AuditLast => {
                rig.end_whosever_it_is().await;
                rig.force(token, approved).await
            }
        }
    }
}
