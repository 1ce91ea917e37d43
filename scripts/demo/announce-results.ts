import { type Delivery, deliverNotices } from './deliver-notices.ts';
import { type Inbox, parentInboxes, studentInboxes } from './inbox.ts';
import { type LiveInbox, openLiveInbox } from './live-inbox.ts';
import { part } from './part.ts';
import type { Progress } from './progress.ts';
import { readAllNotices, readNotice } from './read-notices.ts';
import { releaseResults } from './release.ts';
import type { NoticeFacts } from './report.ts';
import { asStudent, type DemoDeps, type Sitting } from './sitting.ts';
import { verifyInbox } from './verify-inbox.ts';

/** How many of the students read their notice at the end; one more reads all there is. */
const READERS = 3;
const LIVE_MS = 10_000;

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

/** An inbox that cannot be opened live is a fault, and the rest of the demo goes on. */
async function openLive(deps: DemoDeps, { student }: Sitting): Promise<LiveInbox | null> {
  try {
    return await openLiveInbox(deps.gateway, asStudent(student));
  } catch (error) {
    deps.complain(error instanceof Error ? error.message : String(error));
    return null;
  }
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
