import { setTimeout as delay } from 'node:timers/promises';
import type { Gateway } from '#scripts/sandbox/gateway.ts';
import type { LostReplies } from '#scripts/sandbox/neighbours/notification.ts';
import { inParallel, type Progress } from '#scripts/start/progress.ts';
import { type Inbox, readPage } from './inbox.ts';
import type { DemoDeps } from './sit-exam.ts';

/** The ways on which the notices of a run reach their inboxes. */
export interface Delivery {
  /** Replies to notices of the demo's own cluster that were lost on purpose; null for another cluster. */
  losses: LostReplies | null;
  /** Adds a worker that calls the demo for parents; returns false if the cluster's stores are unknown. null: the cluster needs none. */
  addDispatcher: (() => boolean) | null;
}

/** Longest wait for the first notice before a dispatcher is added. */
const FIRST_MS = 4_000;
/** Longest wait for each further notice. */
const NEXT_MS = 20_000;
/** Longest wait for the repeats of notices whose reply was lost. */
const REPEATS_MS = 15_000;

/** Waits for all notices. Returns false if none for a parent can arrive, because no dispatcher can query parents or be added. */
export async function deliverNotices(
  { gateway, complain }: DemoDeps,
  progress: Progress,
  { students, parents }: { students: readonly Inbox[]; parents: readonly Inbox[] },
  { losses, addDispatcher }: Delivery,
): Promise<boolean> {
  const arrived = progress.step;
  let help = addDispatcher;
  let isHelpless = false;
  progress.begin('notices', students.length + parents.length);

  /** Returns the inboxes whose notice did not arrive. If none arrived, adds a dispatcher, once for all calls, and waits again. */
  async function wait(inboxes: readonly Inbox[]): Promise<Inbox[]> {
    const firstMs = help === null && !isHelpless ? NEXT_MS : FIRST_MS;
    const missing = await awaitNotices(gateway, inboxes, { firstMs, nextMs: NEXT_MS, arrived });
    if (help === null || missing.length === 0 || missing.length < inboxes.length) return missing;
    isHelpless = !help();
    help = null;
    if (isHelpless) return missing;
    const whom = inboxes === students ? 'students' : 'parents';
    progress.line(
      `  this cluster delivers no notices to ${whom}: adding a dispatcher that queries the demo for parents`,
    );
    return awaitNotices(gateway, missing, { firstMs: NEXT_MS, nextMs: NEXT_MS, arrived });
  }

  const missing = (await wait(students)).length;
  const missingParents = parents.length === 0 ? 0 : (await wait(parents)).length;
  if (losses !== null) await awaitRepeats(losses, complain);
  const all = students.length + parents.length;
  progress.end(`${all - missing - missingParents} of ${all} arrived`);
  return parents.length === 0 || missingParents < parents.length || !isHelpless;
}

/** Waits until each notice whose reply was lost has been sent again, about a second later; otherwise no repeat would be checked. */
async function awaitRepeats(losses: LostReplies, complain: (fault: string) => void): Promise<void> {
  const until = performance.now() + REPEATS_MS;
  const settled = () => losses.recognised() + losses.doubled.length >= losses.lost();
  while (!settled() && performance.now() < until) await delay(50);
  if (!settled()) complain('a notice whose reply was lost was not sent again');
  for (const id of losses.doubled) complain(`the repeat of ${id} was not recognised`);
}

/**
 * Inboxes that are polled at the same time. Few, because a page of an inbox takes the slowest stand-in for MongoDB 40 ms, in which it delivers
 * nothing. Notices arrive in about the order of the inboxes.
 */
const AT_ONCE = 4;
const POLL_MS = 300;

/**
 * Polls each inbox until it has its notice. Returns those without it after `firstMs` without the first notice, or after `nextMs` without a
 * further one. Each is read at least once.
 */
async function awaitNotices(
  gateway: Gateway,
  inboxes: readonly Inbox[],
  { firstMs, nextMs, arrived }: { firstMs: number; nextMs: number; arrived: () => void },
): Promise<Inbox[]> {
  const missing: Inbox[] = [];
  let until = performance.now() + firstMs;
  await inParallel(inboxes, AT_ONCE, async (inbox) => {
    while (!(await hasCome(gateway, inbox))) {
      if (performance.now() > until) return void missing.push(inbox);
      await delay(POLL_MS);
    }
    arrived();
    until = performance.now() + nextMs;
  });
  return missing;
}

/** Returns whether the notice has arrived. The newest rows are on the first page, so that one page is enough. */
async function hasCome(gateway: Gateway, inbox: Inbox): Promise<boolean> {
  const { items } = await readPage(gateway, inbox, 1);
  return items.some((row) => row.entityId === inbox.attemptId);
}
