const KIB = 1024;
const MIB = 1024 * KIB;

/** Events in the attempt document at which the older ones are copied to rows. EVENT_TAIL_KEEP stay when the next write drops the copies. */
export const EVENT_TAIL_CAP = 40;
export const EVENT_TAIL_KEEP = 20;

/**
 * Maximum of events in the attempt document. More than a few above the cap occur only if many front doors, or many requests at once,
 * write to one attempt, or if rows cannot be stored.
 */
export const EVENT_TAIL_LIMIT = 200;

/** Maximum of events in the replies of GET and submit; SAVE_REPLY_EVENTS is the limit of start and save. */
export const DETAIL_EVENTS = 200;
export const SAVE_REPLY_EVENTS = 20;

/** Maximum of events that a client may post to one attempt. A TIMEOUT is never counted or refused. */
export const MAX_CLIENT_EVENTS = 10_000;
export const MAX_METADATA_BYTES = 8 * KIB;

/** A text or an event's metadata of more bytes is stored in a row of its own, outside the attempt document. */
export const TEXT_ROW_BYTES = 2 * KIB;
export const METADATA_ROW_BYTES = 512;

/** Maximum size of all stored answers of one attempt. */
export const MAX_ANSWER_BYTES = 4 * MIB;

/** A start with a larger stored form is refused, because a MongoDB document is limited to 16 MiB. */
export const MAX_START_BYTES = 12 * MIB;

/** Additional start keys that are stored on one open attempt: the newest ones, because a client repeats its last request. */
export const MAX_START_KEY_ALIASES = 50;

/** Maximum of attempts in a student's own list, which contains the newest ones. */
export const MAX_LISTED_ATTEMPTS = 100;
