import { setTimeout as delay } from 'node:timers/promises';
import type { Progress } from '#scripts/progress.ts';
import type { ReleaseReply } from '#shared/generated/attempt.ts';
import type { Notification } from '#shared/generated/notification.ts';
import { type Delivery, deliverNotices } from './deliver-notices.ts';
import { openEventSource } from './event-source.ts';
import { type Caller, dataOf, type Gateway } from './gateway.ts';
import { type Inbox, parentInboxes, readAllNotices, readNotice, studentInboxes, verifyInbox } from './inbox.ts';
import { ORGANIZATION } from './paper.ts';
import { part } from './parts.ts';
import type { NoticeFacts } from './report.ts';
import { asStudent, type DemoDeps, type Sitting } from './sitting.ts';

/** How many of the students read their notice at the end; one more reads all there is. */
const READERS = 3;
const LIVE_MS = 10_000;
const LATE_TRIES = 6;

/** Releases the results while one student looks on, and follows the notices into every inbox; null where there are no inboxes. */
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
  const [onlooker] = sittings;
  const live = onlooker === undefined ? null : await openLive(deps, onlooker);
  try {
    const releasedAt = performance.now();
    await release(deps, progress, sittings.length);
    const parentsChecked = await deliverNotices(deps, progress, { students, parents }, delivery);
    const toldAt = live === null || onlooker === undefined ? null : await live.toldAt(onlooker.attemptId, LIVE_MS);
    if (live !== null && toldAt === null) deps.complain(`${live.owner.id}: was not told while looking on`);
    const told = await verifyInboxes(deps, progress, [...students, ...(parentsChecked ? parents : [])]);
    return {
      students: { told: told.students, all: students.length },
      parents: { told: told.parents, all: parents.length },
      parentsChecked,
      intake: intakeFacts(delivery),
      live: { owner: onlooker?.student.id ?? '', ms: toldAt === null ? null : toldAt - releasedAt },
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

/** Releases the results as the exam service does, then says it once more, which must change nothing. */
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
  // Where the reply of the first call was lost, this one met a replay, which counts nothing.
  const isRight = first.updatedAttempts === attempts && first.queuedNotifications === 2 * attempts;
  if (!isRight && !first.wasRepeated) {
    deps.complain(`the release told ${first.updatedAttempts} attempts and ${first.queuedNotifications} notices`);
  }
  const again = await sendRelease(deps, event);
  if (again.updatedAttempts !== 0 || again.queuedNotifications !== 0) deps.complain('the release was made twice');
}

/** Until it is done: 202 says that the worker is late, and asking again waits for the same command. */
async function sendRelease(deps: DemoDeps, event: object) {
  for (let tried = 1; ; tried++) {
    const reply = await deps.gateway.send({
      name: 'release',
      method: 'POST',
      path: '/v1/events/exam-results-released',
      headers: { 'x-internal-service': 'exam-service', 'x-internal-token': deps.internalToken },
      body: event,
    });
    const counts = dataOf<ReleaseReply>('release', reply, 200, 202);
    if (reply.status === 200) return { ...counts, wasRepeated: tried > 1 || reply.sentTimes > 1 };
    if (tried === LATE_TRIES) throw new Error('the release is still not done');
  }
}

/** An inbox that cannot be opened live is a fault, and the rest of the demo goes on. */
async function openLive(deps: DemoDeps, { student }: Sitting): Promise<LiveInbox | null> {
  try {
    return await openLiveInbox(deps.gateway, asStudent(student));
  } catch (error) {
    deps.complain(error instanceof Error ? error.message : String(error));
    return null;
  }
}

/** An inbox whose owner has it open in a browser and looks on. */
interface LiveInbox {
  owner: Caller;
  /** When its owner was told of this attempt (performance.now()); null when that did not happen within so long. */
  toldAt(attemptId: string, patienceMs: number): Promise<number | null>;
  close(): Promise<void>;
}

const STREAM_PATH = '/v1/notifications/stream';
const OPEN_MS = 10_000;
const LOOK_MS = 20;

/** Listens to the owner's stream. @throws Error where no `snapshot` has come after 10 s */
async function openLiveInbox(gateway: Gateway, owner: Caller): Promise<LiveInbox> {
  const told = new Map<string, number>();
  let isOpen = false;

  const source = openEventSource(gateway, { owner, path: STREAM_PATH }, (event, data) => {
    if (event === 'snapshot') isOpen = true;
    if (event !== 'notification') return;
    const attemptId = (data as { notification?: Notification }).notification?.entityId;
    if (attemptId != null && !told.has(attemptId)) told.set(attemptId, performance.now());
  });

  async function patiently(isSo: () => boolean, patienceMs: number): Promise<boolean> {
    const until = performance.now() + patienceMs;
    while (!isSo() && performance.now() < until) await delay(LOOK_MS);
    return isSo();
  }

  if (!(await patiently(() => isOpen, OPEN_MS))) {
    await source.close();
    throw new Error(`the live inbox of ${owner.id} did not open: ${source.trouble()}`);
  }
  return {
    owner,
    async toldAt(attemptId, patienceMs) {
      await patiently(() => told.has(attemptId), patienceMs);
      return told.get(attemptId) ?? null;
    },
    close: source.close,
  };
}

async function verifyInboxes(deps: DemoDeps, progress: Progress, inboxes: readonly Inbox[]) {
  const attempts = new Set(inboxes.map(({ attemptId }) => attemptId));
  const told = { students: 0, parents: 0 };
  await part(progress, 'open the inboxes', inboxes, async (inbox) => {
    if (!(await verifyInbox(deps, inbox, attempts))) return;
    told[inbox.owner.role === 'STUDENT' ? 'students' : 'parents'] += 1;
  });
  return told;
}

async function readSome(deps: DemoDeps, inboxes: readonly Inbox[]): Promise<NoticeFacts['readers']> {
  const readers = inboxes.slice(0, READERS);
  for (const inbox of readers) await readNotice(deps, inbox);
  const readsAll = inboxes.at(-1);
  if (readsAll !== undefined) await readAllNotices(deps, readsAll);
  return { one: readers.length, all: readsAll === undefined ? 0 : 1 };
}

function intakeFacts({ intake }: Delivery): NoticeFacts['intake'] {
  return intake === null ? null : { lost: intake.lost(), recognised: intake.recognised() };
}
