const KIB = 1024;
const MIB = 1024 * KIB;

/** Events kept in the attempt document: at the cap, the older ones move out and this many stay. */
export const EVENT_TAIL_CAP = 40;
export const EVENT_TAIL_KEEP = 20;

/** Events in a reply: the detail of GET and submit, and the smaller one of start and save. */
export const DETAIL_EVENTS = 200;
export const SAVE_REPLY_EVENTS = 20;

/** What a client may post to one attempt's log. A TIMEOUT that submits is not counted. */
export const MAX_CLIENT_EVENTS = 10_000;
export const MAX_METADATA_BYTES = 8 * KIB;

/** Above these, a text or a metadata lies in a row of its own and not in the attempt document. */
export const TEXT_ROW_BYTES = 2 * KIB;
export const METADATA_ROW_BYTES = 512;

/** All stored answers of one attempt. */
export const MAX_ANSWER_BYTES = 4 * MIB;

/** A start whose stored form passes this is refused: a document of MongoDB ends at 16 MiB. */
export const MAX_START_BYTES = 12 * MIB;

/** Further start keys under which one open attempt is remembered. */
export const MAX_START_KEY_ALIASES = 50;

/**
 * The largest score a question may carry, either side of zero: up to here all six decimal places of a score are
 * meant by the JSON number that carries it, and no sum of scores reaches Infinity.
 */
export const MAX_QUESTION_SCORE = 1_000_000_000;

/** The newest attempts in a student's own list. */
export const MAX_LISTED_ATTEMPTS = 100;
