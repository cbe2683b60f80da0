//! What the problems are called and what they say.

/// Type, last part of a type of one's own, title and detail of a problem.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) type_uri: &'static str,
    pub(super) slug: &'static str,
    pub(super) title: &'static str,
    pub(super) detail: &'static str,
}

macro_rules! problems {
    ($($name:ident = $variant:literal, $slug:literal, $title:literal, $detail:literal;)+) => {
        $(
            pub(super) static $name: Text =
                Text { type_uri: type_uri::$name, slug: $slug, title: $title, detail: $detail };
        )+

        /// The `type` of each problem: a link to its documentation, as the draft asks for (section 2.7). With
        /// [`problem_docs`](crate::http::LayerBuilder::problem_docs) it is a link to documentation of your own.
        pub mod type_uri {
            $(
                #[doc = concat!("[`Problem::", $variant, "`](crate::http::Problem::", $variant, ")")]
                pub const $name: &str = concat!(
                    "https://docs.rs/leastlock-idempotency/latest/leastlock_idempotency/http/enum.Problem.html#variant.",
                    $variant,
                );
            )+
        }
    };
}

problems! {
    KEY_MISSING = "KeyMissing", "key-missing",
        "Idempotency-Key is missing",
        "Send a key, unique to this request and equal on every repeat of it.";
    KEY_REPEATED = "KeyRepeated", "key-repeated",
        "There is more than one Idempotency-Key",
        "Send one header with one key.";
    KEY_MALFORMED = "KeyMalformed", "key-malformed",
        "Idempotency-Key cannot be read",
        "A key is 1 to 255 visible ASCII characters in double quotes, such as a UUID.";
    UNSCOPED = "Unscoped", "unscoped",
        "Whose key it is cannot be told",
        "The request does not say for whom it is made.";
    LENGTH_REQUIRED = "LengthRequired", "length-required",
        "The length of the body is required",
        "Send Content-Length.";
    BODY_TOO_LARGE = "BodyTooLarge", "body-too-large",
        "The body is too large",
        "The request was not run. The limit, in bytes, is beside this.";
    BODY_TOO_SLOW = "BodyTooSlow", "body-too-slow",
        "The body did not come in time",
        "The request was not run. Send it again with the same key.";
    BODY_UNREADABLE = "BodyUnreadable", "body-unreadable",
        "The body broke off",
        "The request was not run. Send it again with the same key.";
    MISMATCH = "Mismatch", "mismatch",
        "Idempotency-Key is already used",
        "The key was used for a request that says something else. Take a new key for a new request.";
    IN_FLIGHT = "InFlight", "in-flight",
        "A request is outstanding for this Idempotency-Key",
        "Ask again later with the same key, to get its answer.";
    OUTCOME_UNKNOWN = "OutcomeUnknown", "outcome-unknown",
        "The outcome of an earlier request with this Idempotency-Key is unknown",
        "Its effects may be there or not, so it is not run again. Do not send it with a new key; ask again with this one once it is resolved.";
    ANSWER_NOT_KEPT = "AnswerNotKept", "answer-not-kept",
        "The request was run before, and its answer was not kept",
        "It is not run again. The status of its answer is beside this; a Location header says where to look for what it made, if that is known.";
    ANSWER_UNREADABLE = "AnswerUnreadable", "answer-unreadable",
        "The request was run before, and its answer cannot be read",
        "It is not run again.";
    HANDLER_FAILED = "HandlerFailed", "handler-failed",
        "The request did not come to an answer",
        "Its effects may be there or not. Do not send it with a new key.";
    NOT_RECORDED = "NotRecorded", "not-recorded",
        "What became of the request is not known here",
        "Ask again with the same key to learn it.";
    OVERLOADED = "Overloaded", "overloaded",
        "Too many requests are running",
        "The request was not run. Send it again later with the same key.";
    STORE_FAILED = "StoreFailed", "store-failed",
        "Idempotency keys cannot be kept at the moment",
        "Send the request again later with the same key.";
}
