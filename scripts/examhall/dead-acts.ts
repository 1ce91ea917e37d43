import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { chosenLetters, MARKS_BEFORE } from '#infra/mongo/mailbox/dead-letters.ts';
import { type BulkPreview, postBulk, previewBulk } from '#infra/mongo/operations/bulk-acts.ts';
import {
  type ActRow,
  actOnIds,
  actOnLetters,
  NOT_CHARGED,
  ofPreview,
  resultOf,
} from '#infra/mongo/operations/dead-acts.ts';
import type { OperatorAct } from '#infra/mongo/operator-audit.ts';
import { newId } from '#shared/kernel/ids.ts';
import { type DeadActName, DONE_WORDS, MAX_PER_SECOND, PER_SECOND } from '#shared/operations/bulk-act.ts';
import { type LetterFilter, readLetterFilter } from '#shared/operations/dead-letter.ts';
import { followBulk } from './bulk-progress.ts';
import type { CommandWork, Operator } from './operator.ts';
import { actFor, type Flags, limitOf, readMoment } from './options.ts';
import { counted, EXIT, print, Refused, table, WrongUsage } from './output.ts';

const VERBS: Readonly<Record<DeadActName, string>> = { replay: 'replay', ack: 'acknowledge', drop: 'drop' };

/** Returns the work of one act: on the chosen letters, or with `--all` on all that the filter chooses. */
export function deadAct(act: DeadActName): CommandWork {
  return async (operator, ids, flags) => {
    const by = actFor(operator, flags);
    const filter = readFilter(flags, operator.now());
    checkChoice(ids, filter, flags);
    return flags.all === true
      ? actOnAll(operator, flags, { act, filter, by })
      : actOnChosen(operator, flags, { act, filter, by, ids });
  };
}

/** @throws WrongUsage if the letters are not chosen in exactly one way */
function checkChoice(ids: readonly string[], filter: LetterFilter, flags: Flags): void {
  const isFiltered = Object.keys(filter).length > 0;
  if (ids.length > 0 && (isFiltered || flags.all === true))
    throw new WrongUsage('pass command ids or a filter, not both');
  if (ids.length === 0 && !isFiltered) throw new WrongUsage('pass command ids or a filter, for example --queue QUEUE');
  if (flags.all === true && flags.limit !== undefined) throw new WrongUsage('pass --limit or --all, not both');
}

interface Wanted {
  act: DeadActName;
  filter: LetterFilter;
  by: OperatorAct;
}

/** Does the act on each letter, with an audit line of its own; without `--yes` it only lists them. */
async function actOnChosen(
  operator: Operator,
  flags: Flags,
  { act, filter, by, ids }: Wanted & { ids: readonly string[] },
): Promise<number> {
  const limit = limitOf(flags, 100);
  const dryRun = flags.yes !== true;
  const order = { act, chargeSuperseded: flags.chargeSuperseded === true };
  const doneBy = dryRun ? null : by;
  const { mongo } = operator;
  const chosen = () => chosenLetters(mongo, filter, { limit, marks: MARKS_BEFORE[act] });
  const result =
    ids.length > 0
      ? await actOnIds(mongo, order, ids, doneBy)
      : resultOf(await actOnLetters(mongo, order, await chosen(), doneBy), dryRun);
  const { rows } = result;
  for (const id of result.unknown) operator.fail(`no command with id ${id}`);
  print(operator, flags, result, () => (dryRun ? dryRunLines(rows, act) : doneLines(rows, act)));
  if (ids.length === 0 && rows.length === limit) operator.note(`${limit} letters at most; pass --all for all of them`);
  if (dryRun) return EXIT.done;
  return rows.length > 0 && rows.every(({ outcome }) => outcome === 'done') ? EXIT.done : EXIT.failed;
}

function dryRunLines(rows: readonly ActRow[], act: DeadActName): string[] {
  const count = rows.filter(({ outcome }) => outcome === 'dry run').length;
  const pronoun = count === 1 ? 'it' : 'them';
  return [
    `dry run: ${counted(count, 'dead command')} would be ${DONE_WORDS[act]}; pass --yes to ${VERBS[act]} ${pronoun}`,
    ...rows.map(({ id, queue, cause, outcome, why }) => {
      const note = why === '' ? '' : `  ${outcome === 'skipped' ? 'skipped: ' : ''}${whyText(why)}`;
      return `  ${id}  ${queue}  ${cause}${note}`;
    }),
  ];
}

function doneLines(rows: readonly ActRow[], act: DeadActName): string[] {
  const done = DONE_WORDS[act];
  const count = rows.filter(({ outcome }) => outcome === 'done').length;
  const lines = rows.map(({ id, outcome, why }) => `${id}  ${outcome === 'done' ? done : `skipped: ${whyText(why)}`}`);
  return [...lines, `${count} of ${rows.length} ${done}`];
}

function whyText(why: string): string {
  return why === NOT_CHARGED ? `${why}; pass --charge-superseded` : why;
}

/** Posts a bulk act and follows its progress; without `--yes` it only counts the letters. */
async function actOnAll(operator: Operator, flags: Flags, { act, filter, by }: Wanted): Promise<number> {
  const perSecond = Number(flags.perSecond ?? PER_SECOND);
  if (!Number.isInteger(perSecond) || perSecond < 1 || perSecond > MAX_PER_SECOND)
    throw new WrongUsage(`--per-second must be a whole number from 1 to ${MAX_PER_SECOND}`);
  const { mongo, commandAttempts } = operator;
  const chargeSuperseded = flags.chargeSuperseded === true;
  if (flags.yes !== true) {
    const preview = await previewBulk(mongo, { act, filter, chargeSuperseded }, by.now);
    return print(operator, flags, ofPreview(preview), () => previewLines(preview, act, perSecond));
  }
  const request = { act, filter, perSecond, chargeSuperseded, key: newId(by.now) };
  const posted = await postBulk(mongo, request, by, { maxAttempts: commandAttempts });
  if (posted.kind !== 'erased') return followBulk(operator, flags, posted.command);
  throw new Refused('--subject is an erased person, of whom no dead letters are left; nothing is stored');
}

function previewLines(preview: BulkPreview, act: DeadActName, perSecond: number): string[] {
  const { counted: count, more, superseded, groups } = preview;
  const letters = `${more ? 'at least ' : ''}${counted(count, 'dead command')}`;
  const skipped = superseded === 0 ? '' : `; ${superseded} skipped: ${whyText(NOT_CHARGED)}`;
  const head = `dry run: ${letters} would be ${DONE_WORDS[act]}, ${perSecond} a second; pass --yes to ${VERBS[act]} them${skipped}`;
  return [head, ...(groups.length === 0 ? [] : table(groups, GROUP_COLUMNS))];
}

/** The columns of groups of dead letters. */
export const GROUP_COLUMNS = {
  count: ({ count }: Group) => count,
  acknowledged: ({ acknowledged }: Group) => acknowledged,
  queue: ({ queue }: Group) => queue,
  cause: ({ fingerprint }: Group) => fingerprint,
  last: ({ lastAt }: Group) => lastAt,
};
type Group = BulkPreview['groups'][number];

/** Returns the filter of a command line. `now` is in Unix milliseconds. @throws WrongUsage if it has a fault */
export function readFilter(flags: Flags, now: number): LetterFilter {
  const filter = readLetterFilter(flags, { queues: QUEUES, timeOf: (text) => readMoment(text, now) });
  if (!('fault' in filter)) return filter;
  throw new WrongUsage(
    filter.fault === 'queue'
      ? `--queue must be one of ${QUEUES.join(', ')}`
      : '--since and --until must be a time such as 2026-11-23T08:00Z, or an age such as 90m, 2h or 3d',
  );
}
