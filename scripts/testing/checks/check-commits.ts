import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/**
 * `node scripts/testing/checks/check-commits.ts FILE` checks the message in a file, as git's `commit-msg` hook. `… --range A..B` checks the commits of a
 * range, in CI. Prints each fault and exits with 1 if there is one.
 */
const MAX_SUBJECT = 72;
/** First words that cannot begin an imperative. `OTHER_FORM` finds the other forms of a verb. */
const NO_VERBS =
  /^(?:a|all|also|an|and|any|as|at|by|each|every|fewer|for|from|how|in|it|its|more|most|new|no|not|of|on|one|only|our|some|that|the|their|there|these|they|this|those|to|tests?|two|we|what|when|where|which|who|why|with)$/i;
const OTHER_FORM = /(?:[^e]ed|ing|[^s]s)$/i;
/** Imperatives that end like another form of a verb. */
const IMPERATIVES = new Set(['bring', 'embed', 'focus', 'ping', 'ring', 'shed', 'spring', 'string', 'swing']);

/** Returns the faults of a commit's subject. Empty for an imperative of at most 72 characters, and for a subject that git wrote. */
export function subjectFaults(message: string): string[] {
  const subject = message.split('\n').find((line) => !line.startsWith('#')) ?? '';
  if (/^(?:Merge|Revert|fixup!|squash!|amend!) /.test(subject)) return [];
  const [, words = ''] = /^(?:[\w .'/-]{1,24}: )?(.*)$/.exec(subject) ?? [];
  const [first = ''] = words.split(' ');
  const faults: string[] = [];
  if (subject.length > MAX_SUBJECT) faults.push(`${subject.length} characters; at most ${MAX_SUBJECT} are allowed`);
  if (subject.endsWith('.')) faults.push('ends with a full stop');
  if (!isImperative(first))
    faults.push(`begins with "${first}"; begin with a verb in the imperative, after an area if it helps`);
  return faults;
}

function isImperative(word: string): boolean {
  if (!/^[A-Za-z][a-z-]+$/.test(word) || NO_VERBS.test(word)) return false;
  return IMPERATIVES.has(word.toLowerCase()) || !OTHER_FORM.test(word);
}

function subjectsOf(commits: string): string[] {
  const log = execFileSync('git', ['log', '--no-merges', '--format=%s', commits], { encoding: 'utf8' });
  return log.split('\n').filter((subject) => subject !== '');
}

if (import.meta.main) {
  const [target = '', range = ''] = process.argv.slice(2);
  const messages = target === '--range' ? subjectsOf(range) : [readFileSync(target, 'utf8')];
  for (const message of messages) {
    for (const fault of subjectFaults(message)) {
      console.error(`error: ${message.split('\n')[0]}\n    ${fault}`);
      process.exitCode = 1;
    }
  }
}
