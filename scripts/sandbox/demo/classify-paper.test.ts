import t from 'tap';
import { listenLocally } from '#scripts/sandbox/local-server.ts';
import { type ClassifiedItem, createClient, type Job, type JobErrors } from '../../../clients/typescript/src/index.ts';
import { followJob, verifyJob } from './classify-paper.ts';

const OWNER = { id: 'gv-1', role: 'TEACHER' as const, organizationId: 'truong-1' };

function job(revision: number, processed: number, status: Job['status'] = 'RUNNING') {
  return { id: 'job-1', status, revision, progress: { total: 10, processed } } as Job;
}

function eventText(event: string, state: Job): string {
  return `id: ${state.revision}\nevent: ${event}\ndata: ${JSON.stringify({ job: state })}\n\n`;
}

/** Follows a job over a stream that is cut after each of these parts. */
async function follow(t: { teardown(work: () => unknown): void }, parts: readonly string[]) {
  const resumedAt: unknown[] = [];
  const server = await listenLocally((request, response) => {
    const part = parts[resumedAt.length];
    resumedAt.push(request.headers['last-event-id']);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    // Two writes, so that one chunk ends in the middle of an event.
    response.write(part?.slice(0, 30) ?? '');
    response.end(part?.slice(30));
  });
  t.teardown(server.close);
  const shown: number[] = [];
  // No time passes while the client waits to connect again.
  const clock = { now: () => 0, pause: async () => undefined };
  const client = createClient({ baseUrl: server.url, clock });
  const followed = await followJob(client, { owner: OWNER, jobId: 'job-1' }, ({ progress }) => {
    shown.push(progress.processed);
  });
  return { ...followed, shown, resumedAt };
}

t.test('the demo follows a job to its end and resumes a stream that is cut', async (t) => {
  const {
    job: last,
    updates: times,
    faults,
    shown,
    resumedAt,
  } = await follow(t, [
    `retry: 3000\n\n${eventText('snapshot', job(1, 0, 'PENDING'))}event: heartbeat\ndata: {"at":"now"}\n\n${eventText('job.updated', job(2, 5))}`,
    eventText('job.updated', job(4, 10, 'COMPLETED')),
  ]);
  t.equal(last?.status, 'COMPLETED');
  t.same(shown, [0, 5, 10]);
  t.equal(times, 3);
  t.same(resumedAt, [undefined, '2']);
  t.same(faults, []);
});

t.test('the demo reports a job whose revision or progress decreases', async (t) => {
  const { faults } = await follow(t, [
    [job(2, 5), job(1, 6), job(1, 4), job(3, 3, 'FAILED')].map((state) => eventText('job.updated', state)).join(''),
  ]);
  t.same(faults, [
    'revision 1 was received after 2',
    'revision 1 was received with two states',
    '4 processed questions were received after 6',
    '3 processed questions were received after 4',
  ]);
});

const IDS = ['q1', 'q2', 'q3', 'q4', 'q5', 'q6'];

function item(questionId: string): ClassifiedItem {
  const streamed = { value: 'x', confidence: 0.5 };
  return { questionId, suggestions: { difficulty: streamed, topic: streamed }, accepted: false };
}

function finished(items: ClassifiedItem[]): Job {
  const progress = { total: 6, processed: 6, succeeded: 6, failed: 0, batchesTotal: 2, batchesDone: 2, percent: 100 };
  const result = { items, errorCount: 0, usage: { inputTokens: 1, outputTokens: 1 } };
  return {
    id: 'job-1',
    status: 'COMPLETED',
    scope: { questionIds: IDS },
    progress,
    result,
    error: null,
    revision: 9,
  } as unknown as Job;
}

/** Returns the faults that the demo reports if the service returns this job with these stored questions, which a stream leaves out. */
async function complaints(
  job: Job,
  { streamed = job, errors = [] as JobErrors['items'], stored = IDS as readonly string[] | null, hasBank = true } = {},
): Promise<string[]> {
  const faults: string[] = [];
  const shown = { ...job, scope: { ...job.scope, questionContext: stored?.map((id) => ({ id })) ?? null } };
  const client = {
    readJob: async () => ({ job: shown }),
    listJobErrors: async () => ({ items: errors, total: errors.length }),
  };
  const gateway = { client: () => client };
  const complain = (fault: string) => void faults.push(fault);
  await verifyJob({ gateway, examId: '', complain } as never, streamed, IDS, { hasBank });
  return faults;
}

t.test('the demo accepts a job with one suggestion for each question, in order', async (t) => {
  t.same(await complaints(finished(IDS.map(item))), []);
  t.same(await complaints(finished(IDS.map(item)), { hasBank: false }), [], 'the cluster calls a bank of its own');
  const withoutBank = await complaints(finished(IDS.map(item)), { hasBank: false, stored: null });
  t.same(withoutBank, [], 'a cluster without a question bank stores no questions');
});

t.test('the demo reports items that are missing, duplicated, out of order or failed', async (t) => {
  const good = IDS.map(item);
  const [first = item('q1'), second = item('q2'), ...others] = good;
  const error = { questionId: 'q1', batchIndex: 0, code: 'AI_ITEM_MISSING', message: 'no' };
  const wrong: [name: string, faults: Promise<string[]>][] = [
    ['missing', complaints(finished(good.slice(1)))],
    ['double', complaints(finished([first, ...good]))],
    ['in another order', complaints(finished([second, first, ...others]))],
    ['not finished', complaints({ ...finished(good), status: 'FAILED' })],
    ['counted wrong', complaints({ ...finished(good), progress: { ...finished(good).progress, failed: 1 } })],
    ['with an error', complaints(finished(good), { errors: [error] })],
    ['different on the stream', complaints(finished(good), { streamed: { ...finished(good), revision: 8 } })],
    ['without a stored question', complaints(finished(good), { stored: IDS.slice(1) })],
    ['without any stored question', complaints(finished(good), { stored: null })],
    ['with a part of them', complaints(finished(good), { stored: IDS.slice(1), hasBank: false })],
    ['without a field', complaints(finished([{ ...first, suggestions: { topic: {} } }, second, ...others]))],
    ['accepted', complaints(finished([{ ...first, accepted: true }, second, ...others]))],
  ];
  for (const [name, faults] of wrong) t.not((await faults).length, 0, name);
});
