import { setTimeout as delay } from 'node:timers/promises';
import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { type BulkAct, findBulk, listBulks, stopBulk } from '#infra/mongo/operations/bulk-acts.ts';
import { type BulkView, bulkView, DONE_WORDS, isBulkServed } from '#shared/operations/bulk-act.ts';
import { EXIT } from './exit-codes.ts';
import { actFor, type CommandWork, type Flags, type Operator, reasonOf } from './operator.ts';
import { LIMIT_WANTED, limitOf, print, refuse, table } from './output.ts';

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
      print(operator, flags, view, () => sumOf(view));
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
      print(operator, flags, view, () => sumOf(view));
      return EXIT.done;
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
  if (id !== undefined) {
    const found = await findBulk(mongo, id);
    if (found === null) {
      operator.fail(`no bulk act with id ${id}`);
      return EXIT.failed;
    }
    operator.say(JSON.stringify(bulkView(found), null, 2));
    await noteMissingWorker(operator, [bulkView(found)]);
    return EXIT.done;
  }
  const limit = limitOf(flags, 20);
  if (limit === null) return refuse(operator, LIMIT_WANTED);
  const views = (await listBulks(mongo, limit)).map(bulkView);
  print(operator, flags, { jobs: views }, () => (views.length === 0 ? 'no bulk acts' : listText(views)));
  await noteMissingWorker(operator, views);
  return EXIT.done;
};

function listText(views: readonly BulkView[]): string {
  return table(
    ['asked', 'state', 'act', 'done', 'of', 'skipped', 'operator', 'id'],
    views.map((view) => [
      view.askedAt,
      view.waitsFor === null ? view.state : `${view.state}, waits for ${view.waitsFor}`,
      view.act,
      `${view.done}`,
      `${view.counted}`,
      `${view.skipped + view.refused}`,
      view.operator,
      view.id,
    ]),
  );
}

/** Prints a note if an open bulk act has no worker that could carry it out. */
async function noteMissingWorker({ mongo, now, note }: Operator, views: readonly BulkView[]): Promise<void> {
  if (views.every(({ state }) => ENDED.has(state))) return;
  if (!isBulkServed(await liveWorkers(mongo, now())))
    note('note: no live `upkeep` worker; bulk acts wait until one is started');
}

/** Stops a bulk act. */
export const stopOne: CommandWork = async (operator, [id = ''], flags) => {
  const reason = reasonOf(operator, flags);
  if (reason === null) return EXIT.usage;
  const found = await findBulk(operator.mongo, id);
  if (found === null) {
    operator.fail(`no bulk act with id ${id}`);
    return EXIT.failed;
  }
  const isStopped = await stopBulk(operator.mongo, found, actFor(operator, reason));
  const view = bulkView((await findBulk(operator.mongo, id)) ?? found);
  print(operator, flags, view, () =>
    isStopped ? 'it stops before its next letter; what it has done stays done' : `not stopped: it is ${view.state}`,
  );
  return isStopped ? EXIT.done : EXIT.failed;
};
