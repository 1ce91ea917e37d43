interface Discouraged {
  readonly words: RegExp;
  readonly instead: string;
}

/** Words that the style sheet of CONTRIBUTING.md replaces, with what is written instead. A word in backticks is code and is allowed. */
export const DISCOURAGED: readonly Discouraged[] = [
  {
    words: /\b(?:nobody|somebody|anybody|everybody|no one|someone|anyone|everyone|whoever|whomever)\b/gi,
    instead: 'name the actor: worker, front door, caller, student, operator, MongoDB',
  },
  {
    words: /\b(?:is|are|was|were|be) none\b/gi,
    instead: 'write "is invalid", "is missing" or "is treated as missing"',
  },
  { words: /\b(?:gives?|gave|giving|brings?|brought)\b/gi, instead: 'write "return", "assign", "load" or "cause"' },
  {
    words: /\b(?:tells?|told|telling|says?|said|saying|hears?|heard|hearing)\b/gi,
    instead: 'write "return", "log", "publish", "state" or "receive"',
  },
  { words: /\b(?:look|looks|looked|looking)\b(?! up\b|-up)/gi, instead: 'write "read", "poll", "query" or "check"' },
  { words: /\b(?:judges?|judged|judging)\b/gi, instead: 'write "verify" or "check"' },
  {
    words: /\b(?:take|takes|taken|took|taking|given) (?:\w+ )?(?:away|back)\b/gi,
    instead: 'write "delete", "undo" or "refund"',
  },
  { words: /\b(?:lies|lay|lain|lying|stands|stood|standing)\b/gi, instead: 'write "is", "is stored" or "remains"' },
  { words: /\b(?:rests|rested|resting)\b/gi, instead: 'write "wait" or "back off"' },
  { words: /\baway\b/gi, instead: 'write "unavailable", "unreachable" or "deleted"' },
  { words: /\b(?:asks?|asked|asking)\b/gi, instead: 'write "call", "request" or "require"' },
  { words: /\b(?:hand|hands|handed|handing)[ -]in\b/gi, instead: 'write "submit"' },
  { words: /\b(?:tries|tried)\b/gi, instead: 'write "attempt": delivery attempt, provider call, login attempt' },
];
