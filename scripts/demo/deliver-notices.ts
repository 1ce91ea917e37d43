import { setTimeout as delay } from 'node:timers/promises';
import type { Progress } from '#scripts/progress.ts';
import type { Gateway } from './gateway.ts';
import { type Inbox, readPage } from './inbox.ts';
import type { LossyIntake } from './lossy-intake.ts';
import { inParallel } from './parts.ts';
import type { DemoDeps } from './sitting.ts';

/** How the notices of a run reach their inboxes. */
export interface Delivery {
  /** Present where the demo's own cluster delivers through it. */
  intake: LossyIntake | null;
  /** Adds a worker that asks the demo for parents; false where the cluster's stores are not known. null: the cluster needs none. */
  addDispatcher: (() => boolean) | null;
}

const FIRST_MS = 4_000;
const NEXT_MS = 20_000;
const REPEATS_MS = 15_000;

/** Waits for all notices. False where those to parents cannot come: nobody asks for parents, and nothing could be done about it. */
export async function deliverNotices(
  { gateway, complain }: DemoDeps,
  progress: Progress,
  { students, parents }: { students: readonly Inbox[]; parents: readonly Inbox[] },
  { intake, addDispatcher }: Delivery,
): Promise<boolean> {
  const arrived = progress.step;
  let help = addDispatcher;
  let isHelpless = false;
  progress.begin('notices', students.length + parents.length);

  /** Those who were not told. Where nobody of them was, help is asked for, once. */
  async function wait(inboxes: readonly Inbox[]): Promise<Inbox[]> {
    const firstMs = help === null && !isHelpless ? NEXT_MS : FIRST_MS;
    const missing = await awaitNotices(gateway, inboxes, { firstMs, nextMs: NEXT_MS, arrived });
    if (help === null || missing.length === 0 || missing.length < inboxes.length) return missing;
    isHelpless = !help();
    help = null;
    if (isHelpless) return missing;
    const whom = inboxes === students ? 'students' : 'parents';
    progress.line(`  nobody in this cluster tells ${whom}: adding a dispatcher that asks the demo for parents`);
    return awaitNotices(gateway, missing, { firstMs: NEXT_MS, nextMs: NEXT_MS, arrived });
  }

  const untold = (await wait(students)).length;
  const untoldParents = parents.length === 0 ? 0 : (await wait(parents)).length;
  if (intake !== null) await awaitRepeats(intake, complain);
  const all = students.length + parents.length;
  progress.end(`${all - untold - untoldParents} of ${all} arrived`);
  return parents.length === 0 || untoldParents < parents.length || !isHelpless;
}

/** A lost reply brings its notice again, a second or so later; without that, repeats could not be told from luck. */
async function awaitRepeats(intake: LossyIntake, complain: (fault: string) => void): Promise<void> {
  const until = performance.now() + REPEATS_MS;
  const settled = () => intake.recognised() + intake.doubled.length >= intake.lost();
  while (!settled() && performance.now() < until) await delay(50);
  if (!settled()) complain('a notice whose reply was lost did not come again');
  for (const id of intake.doubled) complain(`the repeat of ${id} was not recognised`);
}

/** Inboxes that are asked in one round, and how many at once. */
const ROUND = 48;
const SOCKETS = 8;
const LEAST_REST_MS = 150;

/**
 * Waits until each owner has been told, asking only for those who are outstanding, in turn; gives up when nothing has come
 * for so long (ms; `firstMs` for the first one). Gives those who have not been told.
 */
async function awaitNotices(
  gateway: Gateway,
  inboxes: readonly Inbox[],
  options: { firstMs: number; nextMs: number; arrived: () => void },
): Promise<Inbox[]> {
  let outstanding = [...inboxes];
  let patienceMs = options.firstMs;
  let lastAt = performance.now();
  while (outstanding.length > 0 && performance.now() - lastAt < patienceMs) {
    const began = performance.now();
    const missing: Inbox[] = [];
    const asked = outstanding.slice(0, ROUND);
    await inParallel(asked, SOCKETS, async (inbox) => {
      if (!(await hasCome(gateway, inbox))) return void missing.push(inbox);
      options.arrived();
      patienceMs = options.nextMs;
      lastAt = performance.now();
    });
    outstanding = [...outstanding.slice(ROUND), ...missing];
    // Waiting must not slow down what is waited for: as long a rest as the asking took.
    if (missing.length > 0) await delay(Math.max(LEAST_REST_MS, performance.now() - began));
  }
  return outstanding;
}

/** What has just come stands on the first page. */
async function hasCome(gateway: Gateway, inbox: Inbox): Promise<boolean> {
  const { items } = await readPage(gateway, inbox, 1);
  return items.some((row) => row.entityId === inbox.attemptId);
}
