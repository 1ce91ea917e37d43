import { setTimeout as delay } from 'node:timers/promises';
import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { type BulkAct, findBulk, listBulks, stopBulk } from '#infra/mongo/operations/bulk-acts.ts';
import { type BulkView, bulkView, DONE_WORDS, isBulkServed } from '#shared/operations/bulk-act.ts';
import type { CommandWork, Operator } from './operator.ts';
import { actFor, type Flags, limitOf } from './options.ts';
import { EXIT, print, Refused, table } from './output.ts';

/** Interval at which the progress of a bulk act is read, in milliseconds. */
const READ_MS = 250;
const ENDED: ReadonlySet<string> = new Set(['DONE', 'STOPPED', 'DEAD']);

/** Shows the progress of a bulk act until it ends or the operator leaves with Ctrl+C. The act goes on without its viewer. */
export async function followBulk(operator: Operator, flags: Flags, posted: BulkAct): Promise<number> {
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

/** Returns the letters of a bulk act as text. */
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

/** Lists the newest bulk acts, or prints one. */
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

/** Stops a bulk act. */
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
