import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { Run, WorkerDeps } from '#workers/actor.ts';
import { gradeNoticesActor } from './actor.ts';

/** A service whose port has no listener. */
const nobody = { url: 'http://127.0.0.1:1', token: undefined };

/** Runs a notice to the parents of this student once. */
function run(studentId: string, profile = nobody, alarms: string[] = []) {
  const deps = {
    config: {
      neighbours: { notification: nobody, profile },
      outboundTimeoutMs: 60_000,
      attempt: { outbox: { retryBaseMs: 1 } },
    },
    alarm: (name: string) => void alarms.push(name),
  } as unknown as WorkerDeps;
  const { signal } = new AbortController();
  const body = { recipient: 'PARENT', studentId, organizationId: null } as GradeNotice;
  const handler = gradeNoticesActor(deps).handlers['gradenotices:parent'];
  return handler?.({ command: { body }, signal } as Run<'gradenotices:parent'>);
}

t.test('a notice is retried if its parents cannot be resolved, and delivered if the student has none', async (t) => {
  t.strictSame(await run('.'), { kind: 'done', as: 'DELIVERED', result: { recipients: 0 } });
  t.match(await run('...'), { kind: 'retry', error: { message: 'the profile service sent no complete reply' } });
});

t.test('a refusal of our token by the profile service raises an alarm and spends no attempt', async (t) => {
  let status = 401;
  const server = createServer((_, response) => {
    response.writeHead(status);
    response.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const profile = { url: `http://127.0.0.1:${port}`, token: undefined };
  const alarms: string[] = [];
  for (status of [401, 403, 405]) {
    const outcome = await run('student-1', profile, alarms);
    t.match(outcome, { kind: 'snooze', error: { message: `the profile service answered ${status}` } });
  }
  t.strictSame(alarms, Array(3).fill('notice_misconfigured'));
  status = 404;
  t.match(await run('student-1', profile, alarms), { kind: 'done', result: { recipients: 0 } }, 'an unknown student');
  status = 500;
  t.match(await run('student-1', profile, alarms), { kind: 'retry' });
  t.equal(alarms.length, 3);
});
