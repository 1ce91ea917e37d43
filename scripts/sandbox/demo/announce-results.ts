import { setTimeout as delay } from 'node:timers/promises';
import { reasonOf } from '#scripts/sandbox/command-line.ts';
import { asStudent, releaseResults } from '#scripts/sandbox/gateway.ts';
import type { LostReplies } from '#scripts/sandbox/neighbours/notification.ts';
import { ORGANIZATION } from '#scripts/sandbox/school/paper.ts';
import { inParallel, runPart } from '#scripts/start/progress.ts';
import { type Inbox, inboxesOf, isComplete, readAllNotices, readNotice, verifyInbox } from './inbox.ts';
import type { DemoDeps, Sitting } from './sit-exam.ts';

/** Students who read their own notice at the end. One more student marks a whole inbox as read. */
const READERS = 3;
/** Longest wait for the live inbox to open, and for its notice after all other notices have arrived. */
const LIVE_MS = 10_000;
const AT_ONCE = 24;

export type Unchecked = 'none' | 'parents' | 'all';

/** The ways on which the notices of a run reach their inboxes. */
interface Delivery {
  /** Replies to notices of the demo's own cluster that were lost on purpose; null for another cluster. */
  losses: LostReplies | null;
  /** Adds a worker that calls the demo for parents; returns false if the cluster's stores are unknown. null: the cluster needs none. */
  addDispatcher: (() => boolean) | null;
}

/** The inboxes of a run after the release, and how its notices reach them. */
export interface Announced {
  students: readonly Inbox[];
  parents: readonly Inbox[];
  delivery: Delivery;
  /** false: no worker can deliver notices to parents here. */
  reachesParents: boolean;
  /** Line of the report about the live inbox. */
  live: string;
}

/**
 * Releases the results while one student has a live inbox open, and waits for the notices. Returns null without `delivery`: the cluster then
 * serves no inboxes.
 */
export async function announceResults(
  deps: DemoDeps,
  sittings: readonly Sitting[],
  delivery: Delivery | null,
): Promise<Announced | null> {
  const counted = sittings.filter(({ isVoid }) => !isVoid);
  if (delivery === null) {
    await release(deps, counted.length);
    return null;
  }
  const students = sittings.flatMap((sitting) => inboxesOf('STUDENT', sitting));
  const parents = sittings.flatMap((sitting) => inboxesOf('PARENT', sitting));
  const [follower] = counted;
  const live = follower === undefined ? null : await openLive(deps, follower);
  try {
    const releasedAt = performance.now();
    await release(deps, counted.length);
    const awaited = { students: students.filter(isCounted), parents: parents.filter(isCounted) };
    const reachesParents = await deliverNotices(deps, 'notices', awaited, delivery);
    const receivedAt = live === null ? null : await live.receivedAt();
    const owner = follower?.student.id;
    if (live !== null && receivedAt === null) deps.complain(`${owner}: the live inbox received no notice`);
    const received =
      receivedAt === null
        ? 'received no notice'
        : `received the notice ${Math.round(receivedAt - releasedAt)} ms after the release`;
    return { students, parents, delivery, reachesParents, live: `  live inbox      ${owner} ${received}` };
  } finally {
    await live?.close();
  }
}

/** Returns false for the inbox of a voided attempt: it gets no notice. */
function isCounted({ sitting }: Inbox): boolean {
  return !sitting.isVoid;
}

/** Waits for the notices of a regrade, and checks every inbox. Returns lines of the report. */
export async function checkInboxes(
  deps: DemoDeps,
  announced: Announced | null,
): Promise<{ lines: string[]; unchecked: Unchecked }> {
  if (announced === null)
    return { lines: ['  inboxes         none; the cluster serves no notification service'], unchecked: 'all' };
  const { students, reachesParents, delivery } = announced;
  const parents = reachesParents ? announced.parents : [];
  const isTold = (inbox: Inbox) => isCounted(inbox) && inbox.sitting.regradeId !== null;
  const told = { students: students.filter(isTold), parents: parents.filter(isTold) };
  await deliverNotices(deps, 'notices of the regrade', told, { ...delivery, addDispatcher: null });
  const arrived = await verifyInboxes(deps, [...students, ...parents]);

  const counted = students.filter(isCounted);
  const countedParents = announced.parents.filter(isCounted);
  const [readers, readsAll] = [counted.slice(0, READERS), counted.slice(-1)];
  for (const inbox of readers) await readNotice(deps, inbox);
  for (const inbox of readsAll) await readAllNotices(deps, inbox);
  const { losses } = delivery;
  return {
    unchecked: reachesParents ? 'none' : 'parents',
    lines: [
      `  inboxes         ${arrived.STUDENT} of ${counted.length} students have one notice of the release`,
      `                  ${told.students.length} of them have one more: the regrade changed what they see`,
      reachesParents
        ? `                  ${arrived.PARENT} of ${countedParents.length} parents have the same notices`
        : `                  the notices to ${countedParents.length} parents wait; no worker can deliver them here`,
      ...(losses === null
        ? []
        : [`                  ${losses.lost()} replies lost on purpose, ${losses.recognised()} repeats recognised`]),
      announced.live,
      `  read            ${readers.length} marked their notice as read, ${readsAll.length} a whole inbox; the counts were checked`,
    ],
  };
}

/** Releases the results as the exam service does, then repeats the event, which must change nothing. */
async function release({ gateway, progress, examId, complain }: DemoDeps, attempts: number): Promise<void> {
  progress.begin('release the results', 1);
  const event = {
    sourceEventId: `release-${examId}`,
    organizationId: ORGANIZATION,
    examId,
    releasedAt: new Date().toISOString(),
  };
  const first = await releaseResults(gateway, event);
  // If the reply of an earlier request was lost, this reply is a replay, whose counts are 0.
  const isRight = first.updatedAttempts === attempts && first.queuedNotifications === 2 * attempts;
  if (!isRight && !first.wasRepeated)
    complain(`the release counts ${first.updatedAttempts} attempts and ${first.queuedNotifications} notices`);
  const again = await releaseResults(gateway, event);
  if (again.updatedAttempts !== 0 || again.queuedNotifications !== 0) complain('a repeated release took effect');
  progress.end(`${2 * attempts} notices queued`);
}

/**
 * Opens a student's inbox as a stream, as a browser does. `receivedAt` waits until the notice of the student's attempt arrives, and returns
 * its time (performance.now()), or null after 10 s. If no snapshot arrives within 10 s, records a fault and returns null, so that the demo
 * continues.
 */
async function openLive({ gateway, complain }: DemoDeps, { student, attemptId }: Sitting) {
  const ending = new AbortController();
  const { signal } = ending;
  const events = gateway.client('live inbox').streams.inbox({ as: asStudent(student), signal });

  async function untilNoticed(): Promise<number | null> {
    for await (const event of events) {
      if (event.event === 'notification' && event.data.notification.entityId === attemptId) return performance.now();
    }
    return null;
  }

  const late = setTimeout(() => ending.abort(), LIVE_MS);
  const fault = await events.next().then(
    ({ done }) => (done === true ? 'it sent no snapshot' : null),
    (error: unknown) => reasonOf(error),
  );
  clearTimeout(late);
  if (fault !== null) {
    complain(`the live inbox of ${student.id} did not open: ${fault}`);
    return null;
  }
  const noticed = untilNoticed().catch(() => null);
  const close = async () => {
    ending.abort();
    await noticed;
  };
  return { close, receivedAt: () => Promise.race([noticed, delay(LIVE_MS, null, { ref: false })]) };
}

/** Longest wait for the first notice before a dispatcher is added, and for each further notice. */
const FIRST_MS = 4_000;
const NEXT_MS = 20_000;
/** Longest wait for the repeats of notices whose reply was lost. */
const REPEATS_MS = 15_000;

/** Waits for all notices. Returns false if none for a parent can arrive, because no dispatcher can query parents or be added. */
async function deliverNotices(
  deps: DemoDeps,
  title: string,
  { students, parents }: { students: readonly Inbox[]; parents: readonly Inbox[] },
  { losses, addDispatcher }: Delivery,
): Promise<boolean> {
  const { progress, complain } = deps;
  const all = students.length + parents.length;
  let help = addDispatcher;
  let isHelpless = false;
  progress.begin(title, all);

  /** Returns the inboxes whose notice did not arrive. If none arrived, adds a dispatcher, once for all calls, and waits again. */
  async function wait(inboxes: readonly Inbox[]): Promise<Inbox[]> {
    const missing = await awaitNotices(deps, inboxes, help === null && !isHelpless ? NEXT_MS : FIRST_MS, progress.step);
    if (help === null || missing.length === 0 || missing.length < inboxes.length) return missing;
    isHelpless = !help();
    help = null;
    if (isHelpless) return missing;
    const whom = inboxes === students ? 'students' : 'parents';
    progress.line(
      `  this cluster delivers no notices to ${whom}: adding a dispatcher that queries the demo for parents`,
    );
    return awaitNotices(deps, missing, NEXT_MS, progress.step);
  }

  const missing = (await wait(students)).length;
  const missingParents = (await wait(parents)).length;
  if (losses !== null) await awaitRepeats(losses, complain);
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
const POLLED_AT_ONCE = 4;
const POLL_MS = 300;

/**
 * Polls each inbox until it has its notices, at least once. Returns those without them after `firstMs` without the first notice, or after
 * `NEXT_MS` without a further one.
 */
async function awaitNotices(
  deps: DemoDeps,
  inboxes: readonly Inbox[],
  firstMs: number,
  arrived: () => void,
): Promise<Inbox[]> {
  const missing: Inbox[] = [];
  let until = performance.now() + firstMs;
  await inParallel(inboxes, POLLED_AT_ONCE, async (inbox) => {
    while (!(await isComplete(deps, inbox))) {
      if (performance.now() > until) return void missing.push(inbox);
      await delay(POLL_MS);
    }
    arrived();
    until = performance.now() + NEXT_MS;
  });
  return missing;
}

async function verifyInboxes(deps: DemoDeps, inboxes: readonly Inbox[]) {
  const attempts = new Set(inboxes.map(({ sitting }) => sitting.attemptId));
  const arrived = { STUDENT: 0, PARENT: 0 };
  const open = async (inbox: Inbox) => {
    if ((await verifyInbox(deps, inbox, attempts)) && isCounted(inbox)) arrived[inbox.owner.role] += 1;
  };
  await runPart(deps.progress, 'open the inboxes', inboxes, open, AT_ONCE);
  return arrived;
}
