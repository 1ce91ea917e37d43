import t from 'tap';
import { listenLocally } from '#scripts/http/local-server.ts';
import { createClient, type Job } from '../../../clients/typescript/src/index.ts';
import { followJob } from './classify-paper.ts';

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
