import { setTimeout as delay } from 'node:timers/promises';
import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { chosenLetters, MARKS_BEFORE } from '#infra/mongo/mailbox/dead-letters.ts';
import {
  type BulkAct,
  type BulkPreview,
  findBulk,
  listBulks,
  postBulk,
  previewBulk,
  stopBulk,
} from '#infra/mongo/operations/bulk-acts.ts';
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
import {
  type BulkView,
  bulkView,
  type DeadActName,
  DONE_WORDS,
  isBulkServed,
  MAX_PER_SECOND,
  PER_SECOND,
} from '#shared/operations/bulk-act.ts';
import { type LetterFilter, readLetterFilter } from '#shared/operations/dead-letter.ts';
import { actFor, type CommandWork, type Flags, limitOf, type Operator, readMoment } from './operator.ts';
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

/** Interval at which the progress of a bulk act is read, in milliseconds. */
const READ_MS = 250;
const ENDED: ReadonlySet<string> = new Set(['DONE', 'STOPPED', 'DEAD']);

/** Shows the progress of a bulk act until it ends or the operator leaves with Ctrl+C. The act goes on without its viewer. */
async function followBulk(operator: Operator, flags: Flags, posted: BulkAct): Promise<number> {
  const bar = operator.openProgress();
  const { act, counted } = posted.body;
  operator.note(`bulk act ${posted._id} is stored; Ctrl+C leaves it running`);
  await noteMissingWorker(operator, [bulkView(posted)]);
  bar.begin(act, counted);
  let waitsFor: string | null = null;
  for (;;) {
    const view = bulkView((await findBulk(operator.mongo, posted._id)) ?? posted);
    if (ENDED.has(view.state)) {
      bar.end(view.state);
      print(operator, flags, view, () => [sumOf(view)]);
      const isWhole = view.more ? view.skipped + view.refused === 0 : view.done === view.counted;
      return view.state === 'DONE' && isWhole ? EXIT.done : EXIT.failed;
    }
    if (view.waitsFor !== null && view.waitsFor !== waitsFor)
      bar.line(`  waits until ${view.waitsFor} has fewer due commands`);
    waitsFor = view.waitsFor;
    bar.reach(view.done + view.skipped + view.refused);
    try {
      await delay(READ_MS, undefined, { signal: operator.interrupted });
    } catch {
      bar.end('still running');
      operator.note(`see \`examhall dead jobs ${view.id}\`; stop it with \`examhall dead stop ${view.id}\``);
      return print(operator, flags, view, () => [sumOf(view)]);
    }
  }
}

function sumOf({ act, state, counted, more, done, skipped, refused, error }: BulkView): string {
  const parts = [
    `${done} of ${more ? 'at least ' : ''}${counted} ${DONE_WORDS[act]}`,
    ...(skipped === 0 ? [] : [`${skipped} skipped: changed by another operator`]),
    ...(refused === 0 ? [] : [`${refused} skipped: superseded, see --charge-superseded`]),
    ...(state === 'DONE' ? [] : [state.toLowerCase()]),
    ...(error === null ? [] : [error]),
  ];
  return parts.join('; ');
}

export const showBulks: CommandWork = async (operator, [id], flags) => {
  const { mongo } = operator;
  const found = id === undefined ? await listBulks(mongo, limitOf(flags, 20)) : [await storedBulk(operator, id)];
  const views = found.map(bulkView);
  if (id === undefined)
    print(operator, flags, { jobs: views }, () => (views.length === 0 ? ['no bulk acts'] : tableOf(views)));
  else print(operator, { json: true }, views[0], () => []);
  await noteMissingWorker(operator, views);
  return EXIT.done;
};

async function storedBulk({ mongo }: Operator, id: string): Promise<BulkAct> {
  const found = await findBulk(mongo, id);
  if (found === null) throw new Refused(`no bulk act with id ${id}`);
  return found;
}

function tableOf(views: readonly BulkView[]): string[] {
  return table(views, {
    asked: ({ askedAt }) => askedAt,
    state: ({ state, waitsFor }) => (waitsFor === null ? state : `${state}, waits for ${waitsFor}`),
    act: ({ act }) => act,
    done: ({ done }) => done,
    of: ({ counted }) => counted,
    skipped: ({ skipped, refused }) => skipped + refused,
    operator: ({ operator }) => operator,
    id: ({ id }) => id,
  });
}

/** Prints a note if an open bulk act has no worker that could carry it out. */
async function noteMissingWorker({ mongo, now, note }: Operator, views: readonly BulkView[]): Promise<void> {
  if (views.every(({ state }) => ENDED.has(state))) return;
  if (!isBulkServed(await liveWorkers(mongo, now())))
    note('note: no live `upkeep` worker; bulk acts wait until one is started');
}

export const stopOne: CommandWork = async (operator, [id = ''], flags) => {
  const act = actFor(operator, flags);
  const found = await storedBulk(operator, id);
  const isStopped = await stopBulk(operator.mongo, found, act);
  const view = bulkView((await findBulk(operator.mongo, id)) ?? found);
  const told = isStopped
    ? 'it stops before its next letter; what it has done stays done'
    : `not stopped: it is ${view.state}`;
  print(operator, flags, view, () => [told]);
  return isStopped ? EXIT.done : EXIT.failed;
};
