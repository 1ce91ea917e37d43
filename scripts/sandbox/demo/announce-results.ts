import { setTimeout as delay } from 'node:timers/promises';
import { reasonOf } from '#scripts/sandbox/command-line.ts';
import { asStudent } from '#scripts/sandbox/gateway.ts';
import { releaseResults } from '#scripts/sandbox/school/exam-calls.ts';
import { ORGANIZATION } from '#scripts/sandbox/school/paper.ts';
import { type Progress, runPart } from '#scripts/start/progress.ts';
import { type Delivery, deliverNotices } from './deliver-notices.ts';
import { type Inbox, parentInboxes, readAllNotices, readNotice, studentInboxes, verifyInbox } from './inbox.ts';
import type { DemoDeps, Sitting } from './sit-exam.ts';

/** Students who read their own notice at the end. One more student marks a whole inbox as read. */
const READERS = 3;
/** Longest wait for the live inbox to open, and for its notice after all other notices have arrived. */
const LIVE_MS = 10_000;
/** Inboxes that are read at the same time. */
const AT_ONCE = 24;

/** Notices of a run: lines of the report, and those that could not be checked. */
export interface Announced {
  lines: string[];
  unchecked: 'none' | 'parents' | 'all';
}

/**
 * Releases the results while one student has a live inbox open, and checks that the notices arrive in every inbox. Without `delivery`
 * the cluster serves no inboxes.
 */
export async function announceResults(
  deps: DemoDeps,
  progress: Progress,
  sittings: readonly Sitting[],
  delivery: Delivery | null,
): Promise<Announced> {
  if (delivery === null) {
    await release(deps, progress, sittings.length);
    return { lines: ['  inboxes         none; the cluster serves no notification service'], unchecked: 'all' };
  }
  const students = studentInboxes(sittings);
  const parents = parentInboxes(sittings);
  const [follower] = sittings;
  const live = follower === undefined ? null : await openLive(deps, follower);
  try {
    const releasedAt = performance.now();
    await release(deps, progress, sittings.length);
    const parentsChecked = await deliverNotices(deps, progress, { students, parents }, delivery);
    const receivedAt = live === null ? null : await live.receivedAt();
    if (live !== null && receivedAt === null)
      deps.complain(`${follower?.student.id}: the live inbox received no notice`);
    const arrived = await verifyInboxes(deps, progress, [...students, ...(parentsChecked ? parents : [])]);
    const { losses } = delivery;
    const [one, all] = await readSome(deps, students);
    const owner = follower?.student.id;
    return {
      unchecked: parentsChecked ? 'none' : 'parents',
      lines: [
        `  inboxes         ${arrived.students} of ${students.length} students have exactly one notice`,
        parentsChecked
          ? `                  ${arrived.parents} of ${parents.length} parents have exactly one notice`
          : `                  the notices to ${parents.length} parents wait; no worker can deliver them here`,
        ...(losses === null
          ? []
          : [`                  ${losses.lost()} replies lost on purpose, ${losses.recognised()} repeats recognised`]),
        receivedAt === null
          ? `  live inbox      ${owner} received no notice`
          : `  live inbox      ${owner} received the notice ${Math.round(receivedAt - releasedAt)} ms after the release`,
        `  read            ${one} marked their notice as read, ${all} a whole inbox; the counts were checked`,
      ],
    };
  } finally {
    await live?.close();
  }
}

/** Releases the results as the exam service does, then repeats the event, which must change nothing. */
async function release(deps: DemoDeps, progress: Progress, attempts: number): Promise<void> {
  const { gateway, examId, complain } = deps;
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
  const opened = Promise.withResolvers<void>();
  const noticed = Promise.withResolvers<number>();
  const { signal } = ending;

  async function listen(): Promise<void> {
    for await (const event of gateway.client('live inbox').streams.inbox({ as: asStudent(student), signal })) {
      if (event.event === 'snapshot') opened.resolve();
      if (event.event === 'notification' && event.data.notification.entityId === attemptId)
        noticed.resolve(performance.now());
    }
  }

  const listening = listen().catch(opened.reject);
  const late = setTimeout(() => opened.reject(new Error('it sent no snapshot')), LIVE_MS);
  const close = async () => {
    ending.abort();
    await listening;
  };
  try {
    await opened.promise;
  } catch (error) {
    complain(`the live inbox of ${student.id} did not open: ${reasonOf(error)}`);
    await close();
    return null;
  } finally {
    clearTimeout(late);
  }
  return { close, receivedAt: () => Promise.race([noticed.promise, delay(LIVE_MS, null, { ref: false })]) };
}

async function verifyInboxes(deps: DemoDeps, progress: Progress, inboxes: readonly Inbox[]) {
  const attempts = new Set(inboxes.map(({ attemptId }) => attemptId));
  const arrived = { students: 0, parents: 0 };
  const open = async (inbox: Inbox) => {
    if (!(await verifyInbox(deps, inbox, attempts))) return;
    arrived[inbox.owner.role === 'STUDENT' ? 'students' : 'parents'] += 1;
  };
  await runPart(progress, 'open the inboxes', inboxes, open, AT_ONCE);
  return arrived;
}

/** Reads some inboxes. Returns the number of those in which one notice, and in which every notice, was marked as read. */
async function readSome(deps: DemoDeps, inboxes: readonly Inbox[]): Promise<[one: number, all: number]> {
  const [readers, readsAll] = [inboxes.slice(0, READERS), inboxes.slice(-1)];
  for (const inbox of readers) await readNotice(deps, inbox);
  for (const inbox of readsAll) await readAllNotices(deps, inbox);
  return [readers.length, readsAll.length];
}
