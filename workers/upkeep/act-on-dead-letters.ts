import { setTimeout as delay } from 'node:timers/promises';
import {
  changeDeadIn,
  firstPlace,
  type LetterPlace,
  type LetterStep,
  lettersAfter,
  MARKS_BEFORE,
  nextQueue,
  type StepOptions,
} from '#infra/mongo/mailbox/dead-letters.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { dueCount } from '#infra/mongo/mailbox/queue-depths.ts';
import { bulkLine } from '#infra/mongo/operations/bulk-acts.ts';
import { decideOn } from '#infra/mongo/operations/dead-acts.ts';
import { type AuditRow, appendAudit } from '#infra/mongo/operator-audit.ts';
import type { Command } from '#shared/kernel/command.ts';
import {
  type BulkCounts,
  type BulkProgress,
  DUE_WAIT_MS,
  isTaken,
  lettersOfPage,
  MAX_DUE,
  pauseAfter,
} from '#shared/operations/bulk-act.ts';
import type { Outcome, Run, WorkerDeps } from '#workers/actor.ts';

type BulkRun = Run<'upkeep:deadletters'>;

/** Thrown in the transaction of a letter that another operator has changed since it was read. */
class LetterChanged extends Error {}

/**
 * Carries out a bulk act: walks the letters of its filter by queue and id. The change of a letter, its line of the audit and the progress
 * are one transaction under the fence of this claim. A worker that is killed therefore takes no letter twice and counts each once.
 *
 * A replay waits while its queue has many due commands, because its workers serve current work as well.
 */
export async function actOnDeadLetters(
  deps: WorkerDeps,
  run: BulkRun,
  { read }: Pick<StepOptions, 'read'> = {},
): Promise<Outcome<'upkeep:deadletters'>> {
  const { act, filter, perSecond } = run.command.body;
  const marks = MARKS_BEFORE[act];
  const limit = lettersOfPage(perSecond);
  let at = run.command.progress ?? { ...firstPlace(filter), waitsFor: null, done: 0, skipped: 0, refused: 0 };
  for (let place: LetterPlace | null = at; place !== null; ) {
    run.signal.throwIfAborted();
    const beganAt = performance.now();
    const { letters, readTo }: LetterStep = isTaken(place.queue, filter)
      ? await lettersAfter(deps.mongo, filter, place, { limit, read, marks, session: run.session })
      : { letters: [], readTo: null };
    const next: LetterPlace | null = readTo === null ? nextQueue(place, filter) : { queue: place.queue, after: readTo };
    if (letters.length === 0) {
      if (readTo !== null) {
        if (await isStopped(deps, run)) return end(deps, run, at, true);
        // Store the place, so that a walk past many letters of other causes is not repeated after a kill.
        at = await store(run, { ...at, queue: place.queue, after: readTo, waitsFor: null });
      }
      place = next;
      continue;
    }
    at = { ...at, ...place };
    if (at.waitsFor !== null && (await isStopped(deps, run))) return end(deps, run, at, true);
    if (
      act === 'replay' &&
      (await dueCount(deps.mongo, place.queue, deps.now(), { limit: MAX_DUE, session: run.session })) >= MAX_DUE
    ) {
      if (at.waitsFor !== place.queue) await run.checkpoint({ ...at, waitsFor: place.queue }, async () => undefined);
      return { kind: 'snooze', afterMs: DUE_WAIT_MS };
    }
    for (const letter of letters) {
      run.signal.throwIfAborted();
      if (await isStopped(deps, run)) return end(deps, run, at, true);
      at = await actOn(deps, run, letter, at);
    }
    place = next;
    await delay(pauseAfter(letters.length, perSecond, performance.now() - beganAt), undefined, { signal: run.signal });
  }
  return end(deps, run, at, false);
}

/** Reads whether an operator has stopped the act since its claim. */
async function isStopped({ mongo }: WorkerDeps, { command, session }: BulkRun): Promise<boolean> {
  const now = await readCommand(mongo, command, session);
  return now?.body.stop !== undefined;
}

/** Acts on one letter and returns the progress after it. */
async function actOn(deps: WorkerDeps, run: BulkRun, letter: Command, at: BulkProgress): Promise<BulkProgress> {
  const { mongo, now } = deps;
  const { body } = run.command;
  const passed = { ...at, after: letter._id, waitsFor: null };
  const change = await decideOn(mongo, body, letter);
  if (change === null) return store(run, { ...passed, refused: at.refused + 1 });
  const done = { ...passed, done: at.done + 1 };
  let row: AuditRow | undefined;
  try {
    await run.checkpoint(done, async (session) => {
      if (!(await changeDeadIn(mongo, letter, change, session))) throw new LetterChanged(letter._id);
      row = await appendAudit(mongo, { ...askerOf(body), now: now() }, change.line, session);
    });
  } catch (error) {
    if (error instanceof LetterChanged) return store(run, { ...passed, skipped: at.skipped + 1 });
    throw error;
  }
  deps.log.info({ ...row }, 'operator act');
  return done;
}

async function store(run: BulkRun, progress: BulkProgress): Promise<BulkProgress> {
  await run.checkpoint(progress, async () => undefined);
  return progress;
}

/** Ends the act, with the sum of its letters in the audit. */
function end(
  deps: WorkerDeps,
  { command }: BulkRun,
  { done, skipped, refused }: BulkCounts,
  stopped: boolean,
): Outcome<'upkeep:deadletters'> {
  const { body } = command;
  const detail = { act: body.act, counted: body.counted, done, skipped, refused, stopped: stopped ? 'yes' : 'no' };
  let row: AuditRow | undefined;
  return {
    kind: 'done',
    result: { done, skipped, refused, stopped },
    effects: async (session) => {
      row = await appendAudit(
        deps.mongo,
        { ...askerOf(body), now: deps.now() },
        bulkLine('end', command, detail),
        session,
      );
    },
    after: () => deps.log.info({ ...row }, 'operator act'),
  };
}

function askerOf({ operator, reason }: BulkRun['command']['body']) {
  return { operator, reason };
}
