//! What a lease, the scopes of its work and its permits all tell of it.

/// The accessors of a type with a field `held`: one text, so that the three cannot come to differ.
macro_rules! accessors {
    () => {
        /// The lock.
        #[must_use]
        pub fn name(&self) -> &$crate::LockName {
            self.held.name()
        }

        /// What may be believed of the lease now.
        #[must_use]
        pub fn status(&self) -> $crate::LeaseStatus {
            self.held.status()
        }

        /// How long the lease lasts from now on, unless it is renewed.
        ///
        /// # Errors
        /// [`Error::Lost`](crate::Error::Lost) if it is over.
        pub fn remaining(&self) -> Result<std::time::Duration, $crate::Error> {
            self.held.remaining()
        }
    };
}

/// The accessors of what is fenced: a type with the fields `held` and `kind`.
macro_rules! fenced_accessors {
    () => {
        /// A permit for a protected resource.
        ///
        /// # Errors
        /// [`Error::Lost`](crate::Error::Lost) if the lease is over, which is noticed here after a pause as well;
        /// [`Error::Unconfirmed`](crate::Error::Unconfirmed) while a renewal is unanswered.
        pub fn permit(&self) -> Result<$crate::Permit, $crate::Error> {
            $crate::Permit::new(&self.held, self.kind.token)
        }

        /// The fencing token. It does not change by renewals.
        #[must_use]
        pub const fn token(&self) -> $crate::FencingToken {
            self.kind.token
        }
    };
}

pub(crate) use {accessors, fenced_accessors};
