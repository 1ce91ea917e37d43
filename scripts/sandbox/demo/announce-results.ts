import { setTimeout as delay } from 'node:timers/promises';
import type { Progress } from '#scripts/progress.ts';
import { type Caller, dataOf, type Gateway } from '#scripts/sandbox/gateway.ts';
import { part } from '#scripts/sandbox/parts.ts';
import { ORGANIZATION } from '#scripts/sandbox/school/paper.ts';
import type { ReleaseReply } from '#shared/generated/attempt.ts';
import type { Notification } from '#shared/generated/notification.ts';
import { type Delivery, deliverNotices } from './deliver-notices.ts';
import { openEventSource } from './event-source.ts';
import { type Inbox, parentInboxes, readAllNotices, readNotice, studentInboxes, verifyInbox } from './inbox.ts';
import type { NoticeFacts } from './report.ts';
import { asStudent, type DemoDeps, type Sitting } from './sitting.ts';

/** Students who read their own notice at the end. One more student marks a whole inbox as read. */
const READERS = 3;
/** Longest wait for the notice in the live inbox, after all other notices have arrived. */
const LIVE_MS = 10_000;
/** Calls to the release route before the demo fails; each waits for the same command. */
const MAX_SENDINGS = 6;

/**
 * Releases the results while one student has a live inbox open, and checks that the notices arrive in every inbox.
 * Returns null if the cluster serves no inboxes.
 */
export async function announceResults(
  deps: DemoDeps,
  progress: Progress,
  sittings: readonly Sitting[],
  delivery: Delivery | null,
): Promise<NoticeFacts | null> {
  if (delivery === null) {
    await release(deps, progress, sittings.length);
    return null;
  }
  const students = studentInboxes(sittings);
  const parents = parentInboxes(sittings);
  const [follower] = sittings;
  const live = follower === undefined ? null : await openLive(deps, follower);
  try {
    const releasedAt = performance.now();
    await release(deps, progress, sittings.length);
    const parentsChecked = await deliverNotices(deps, progress, { students, parents }, delivery);
    const receivedAt =
      live === null || follower === undefined ? null : await live.receivedAt(follower.attemptId, LIVE_MS);
    if (live !== null && receivedAt === null) deps.complain(`${live.owner.id}: the live inbox received no notice`);
    const arrived = await verifyInboxes(deps, progress, [...students, ...(parentsChecked ? parents : [])]);
    return {
      students: { arrived: arrived.students, all: students.length },
      parents: { arrived: arrived.parents, all: parents.length },
      parentsChecked,
      intake: intakeFacts(delivery),
      live: { owner: follower?.student.id ?? '', ms: receivedAt === null ? null : receivedAt - releasedAt },
      readers: await readSome(deps, students),
    };
  } finally {
    await live?.close();
  }
}

async function release(deps: DemoDeps, progress: Progress, attempts: number): Promise<void> {
  progress.begin('release the results', 1);
  await releaseResults(deps, attempts);
  progress.end(`${2 * attempts} notices queued`);
}

/** Releases the results as the exam service does, then repeats the event, which must change nothing. */
async function releaseResults(deps: DemoDeps, attempts: number): Promise<void> {
  const event = {
    sourceService: 'exam-service',
    type: 'exam.results_released.v1',
    sourceEventId: `release-${deps.examId}`,
    organizationId: ORGANIZATION,
    examId: deps.examId,
    releasedAt: new Date().toISOString(),
  };
  const first = await sendRelease(deps, event);
  // If the reply of an earlier sending was lost, this reply is a replay, whose counts are 0.
  const isRight = first.updatedAttempts === attempts && first.queuedNotifications === 2 * attempts;
  if (!isRight && !first.wasRepeated) {
    deps.complain(`the release counts ${first.updatedAttempts} attempts and ${first.queuedNotifications} notices`);
  }
  const again = await sendRelease(deps, event);
  if (again.updatedAttempts !== 0 || again.queuedNotifications !== 0) deps.complain('a repeated release took effect');
}

/** Sends a release until it is done. After a 202 the worker is still running it; the next call waits for the same command. */
async function sendRelease(deps: DemoDeps, event: object) {
  for (let sending = 1; ; sending++) {
    const reply = await deps.gateway.send({
      name: 'release',
      method: 'POST',
      path: '/v1/events/exam-results-released',
      headers: { 'x-internal-service': 'exam-service', 'x-internal-token': deps.internalToken },
      body: event,
    });
    const counts = dataOf<ReleaseReply>('release', reply, 200, 202);
    if (reply.status === 200) return { ...counts, wasRepeated: sending > 1 || reply.sentTimes > 1 };
    if (sending === MAX_SENDINGS) throw new Error('the release is still not done');
  }
}

/** Opens a live inbox. If that fails, records a fault and returns null, so that the demo continues. */
async function openLive(deps: DemoDeps, { student }: Sitting): Promise<LiveInbox | null> {
  try {
    return await openLiveInbox(deps.gateway, asStudent(student));
  } catch (error) {
    deps.complain(error instanceof Error ? error.message : String(error));
    return null;
  }
}

/** An inbox that is open as a stream, as in a browser. */
interface LiveInbox {
  owner: Caller;
  /** Waits until the notice of this attempt arrives. Returns its time (performance.now()), or null after `timeoutMs`. */
  receivedAt(attemptId: string, timeoutMs: number): Promise<number | null>;
  close(): Promise<void>;
}

const STREAM_PATH = '/v1/notifications/stream';
const OPEN_MS = 10_000;
const POLL_MS = 20;

/** Opens the owner's stream. @throws Error if no `snapshot` arrives within 10 s */
async function openLiveInbox(gateway: Gateway, owner: Caller): Promise<LiveInbox> {
  const received = new Map<string, number>();
  let isOpen = false;

  const source = openEventSource(gateway, { owner, path: STREAM_PATH }, (event, data) => {
    if (event === 'snapshot') isOpen = true;
    if (event !== 'notification') return;
    const attemptId = (data as { notification?: Notification }).notification?.entityId;
    if (attemptId != null && !received.has(attemptId)) received.set(attemptId, performance.now());
  });

  async function waitUntil(isSo: () => boolean, timeoutMs: number): Promise<boolean> {
    const until = performance.now() + timeoutMs;
    while (!isSo() && performance.now() < until) await delay(POLL_MS);
    return isSo();
  }

  if (!(await waitUntil(() => isOpen, OPEN_MS))) {
    await source.close();
    throw new Error(`the live inbox of ${owner.id} did not open: ${source.trouble()}`);
  }
  return {
    owner,
    async receivedAt(attemptId, timeoutMs) {
      await waitUntil(() => received.has(attemptId), timeoutMs);
      return received.get(attemptId) ?? null;
    },
    close: source.close,
  };
}

async function verifyInboxes(deps: DemoDeps, progress: Progress, inboxes: readonly Inbox[]) {
  const attempts = new Set(inboxes.map(({ attemptId }) => attemptId));
  const arrived = { students: 0, parents: 0 };
  await part(progress, 'open the inboxes', inboxes, async (inbox) => {
    if (!(await verifyInbox(deps, inbox, attempts))) return;
    arrived[inbox.owner.role === 'STUDENT' ? 'students' : 'parents'] += 1;
  });
  return arrived;
}

async function readSome(deps: DemoDeps, inboxes: readonly Inbox[]): Promise<NoticeFacts['readers']> {
  const readers = inboxes.slice(0, READERS);
  for (const inbox of readers) await readNotice(deps, inbox);
  const readsAll = inboxes.at(-1);
  if (readsAll !== undefined) await readAllNotices(deps, readsAll);
  return { one: readers.length, all: readsAll === undefined ? 0 : 1 };
}

function intakeFacts({ losses }: Delivery): NoticeFacts['intake'] {
  return losses === null ? null : { lost: losses.lost(), recognised: losses.recognised() };
}
