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
import { newId } from '#shared/kernel/ids.ts';
import { type DeadActName, DONE_WORDS, MAX_PER_SECOND, PER_SECOND } from '#shared/operations/bulk-act.ts';
import { type LetterFilter, readLetterFilter } from '#shared/operations/letter-filter.ts';
import { followBulk } from './bulk-progress.ts';
import { EXIT } from './exit-codes.ts';
import { actFor, type CommandWork, counted, type Flags, type Operator, reasonOf } from './operator.ts';
import { iso, LIMIT_WANTED, limitOf, print, refuse, table } from './output.ts';
import { readMoment } from './read-moment.ts';

const VERBS: Readonly<Record<DeadActName, string>> = { replay: 'replay', ack: 'acknowledge', drop: 'drop' };

/** Returns the work of one act: on the chosen letters, or with `--all` on all that the filter chooses. */
export function deadAct(act: DeadActName): CommandWork {
  return async (operator, ids, flags) => {
    const reason = reasonOf(operator, flags);
    if (reason === null) return EXIT.usage;
    const filter = readFilter(flags, operator.now());
    if (typeof filter === 'string') return refuse(operator, filter);
    const fault = faultOfChoice(ids, filter, flags);
    if (fault !== null) return refuse(operator, fault);
    return flags.all === true
      ? actOnAll(operator, flags, { act, filter, reason })
      : actOnChosen(operator, flags, { act, filter, reason, ids });
  };
}

function faultOfChoice(ids: readonly string[], filter: LetterFilter, flags: Flags): string | null {
  const isFiltered = Object.keys(filter).length > 0;
  if (ids.length > 0 && (isFiltered || flags.all === true)) return 'pass command ids or a filter, not both';
  if (ids.length === 0 && !isFiltered) return 'pass command ids or a filter, for example --queue QUEUE';
  if (flags.all === true && flags.limit !== undefined) return 'pass --limit or --all, not both';
  return null;
}

interface Wanted {
  act: DeadActName;
  filter: LetterFilter;
  reason: string;
}

/** Does the act on each letter, with an audit line of its own; without `--yes` it only lists them. */
async function actOnChosen(
  operator: Operator,
  flags: Flags,
  { act, filter, reason, ids }: Wanted & { ids: readonly string[] },
): Promise<number> {
  const limit = limitOf(flags, 100);
  if (limit === null) return refuse(operator, LIMIT_WANTED);
  const dryRun = flags.yes !== true;
  const order = { act, chargeSuperseded: flags.chargeSuperseded === true };
  const by = dryRun ? null : actFor(operator, reason);
  const { mongo } = operator;
  const chosen = () => chosenLetters(mongo, filter, { limit, marks: MARKS_BEFORE[act] });
  const result =
    ids.length > 0
      ? await actOnIds(mongo, order, ids, by)
      : resultOf(await actOnLetters(mongo, order, await chosen(), by), dryRun);
  const { rows } = result;
  for (const id of result.unknown) operator.fail(`no command with id ${id}`);
  print(operator, flags, result, () => (dryRun ? dryRunText(rows, act) : doneText(rows, act)));
  if (ids.length === 0 && rows.length === limit) operator.note(`${limit} letters at most; pass --all for all of them`);
  if (dryRun) return EXIT.done;
  return rows.length > 0 && rows.every(({ outcome }) => outcome === 'done') ? EXIT.done : EXIT.failed;
}

function dryRunText(rows: readonly ActRow[], act: DeadActName): string {
  const count = rows.filter(({ outcome }) => outcome === 'dry run').length;
  const pronoun = count === 1 ? 'it' : 'them';
  return [
    `dry run: ${counted(count, 'dead command')} would be ${DONE_WORDS[act]}; pass --yes to ${VERBS[act]} ${pronoun}`,
    ...rows.map(({ id, queue, cause, outcome, why }) => {
      const note = why === '' ? '' : `  ${outcome === 'skipped' ? 'skipped: ' : ''}${whyText(why)}`;
      return `  ${id}  ${queue}  ${cause}${note}`;
    }),
  ].join('\n');
}

function doneText(rows: readonly ActRow[], act: DeadActName): string {
  const done = DONE_WORDS[act];
  const count = rows.filter(({ outcome }) => outcome === 'done').length;
  const lines = rows.map(({ id, outcome, why }) => `${id}  ${outcome === 'done' ? done : `skipped: ${whyText(why)}`}`);
  return [...lines, `${count} of ${rows.length} ${done}`].join('\n');
}

function whyText(why: string): string {
  return why === NOT_CHARGED ? `${why}; pass --charge-superseded` : why;
}

/** Posts a bulk act and follows its progress; without `--yes` it only counts the letters. */
async function actOnAll(operator: Operator, flags: Flags, { act, filter, reason }: Wanted): Promise<number> {
  const perSecond = Number(flags.perSecond ?? PER_SECOND);
  if (!Number.isInteger(perSecond) || perSecond < 1 || perSecond > MAX_PER_SECOND)
    return refuse(operator, `--per-second must be a whole number from 1 to ${MAX_PER_SECOND}`);
  const { mongo, commandAttempts } = operator;
  const by = actFor(operator, reason);
  const chargeSuperseded = flags.chargeSuperseded === true;
  if (flags.yes !== true) {
    const preview = await previewBulk(mongo, { act, filter, chargeSuperseded }, by.now);
    print(operator, flags, ofPreview(preview), () => previewText(preview, act, perSecond));
    return EXIT.done;
  }
  const request = { act, filter, perSecond, chargeSuperseded, key: newId(by.now) };
  const posted = await postBulk(mongo, request, by, { maxAttempts: commandAttempts });
  if (posted.kind !== 'erased') return followBulk(operator, flags, posted.command);
  operator.fail('--subject is an erased person, of whom no dead letters are left; nothing is stored');
  return EXIT.failed;
}

function previewText(preview: BulkPreview, act: DeadActName, perSecond: number): string {
  const { counted: count, more, superseded, groups } = preview;
  const letters = `${more ? 'at least ' : ''}${counted(count, 'dead command')}`;
  const skipped = superseded === 0 ? '' : `; ${superseded} skipped: ${whyText(NOT_CHARGED)}`;
  const head = `dry run: ${letters} would be ${DONE_WORDS[act]}, ${perSecond} a second; pass --yes to ${VERBS[act]} them${skipped}`;
  if (groups.length === 0) return head;
  const rows = groups.map((group) => [
    `${group.count}`,
    `${group.acknowledged}`,
    group.queue,
    group.fingerprint,
    iso(group.lastAt),
  ]);
  return [head, table(['count', 'acknowledged', 'queue', 'cause', 'last'], rows)].join('\n');
}

/** Returns the filter of a command line, or its fault. `now` is in Unix milliseconds. */
export function readFilter(flags: Flags, now: number): LetterFilter | string {
  const filter = readLetterFilter(flags, { queues: QUEUES, timeOf: (text) => readMoment(text, now) });
  if (!('fault' in filter)) return filter;
  return filter.fault === 'queue'
    ? `--queue must be one of ${QUEUES.join(', ')}`
    : '--since and --until must be a time such as 2026-11-23T08:00Z, or an age such as 90m, 2h or 3d';
}
