import t from 'tap';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { Run, WorkerDeps } from '#workers/actor.ts';
import { gradeNoticesActor } from './actor.ts';

/** Services where nobody listens. */
const nobody = { url: 'http://127.0.0.1:1', token: undefined };
const deps = {
  config: {
    neighbours: { notification: nobody, profile: nobody },
    outboundTimeoutMs: 1_000,
    attempt: { outbox: { retryBaseMs: 1 } },
  },
} as unknown as WorkerDeps;

/** A notice to the parents of this student, run once. */
function run(studentId: string) {
  const { signal } = new AbortController();
  const body = { recipient: 'PARENT', studentId, organizationId: null } as GradeNotice;
  const handler = gradeNoticesActor(deps).handlers['gradenotices:parent'];
  return handler?.({ command: { body }, signal } as Run<'gradenotices:parent'>);
}

t.test('a notice whose parents cannot be resolved is tried again, and one without parents is delivered', async (t) => {
  t.strictSame(await run('.'), { kind: 'done', as: 'DELIVERED', result: { recipients: 0 } });
  t.match(await run('...'), { kind: 'retry', error: { message: 'the profile service gave no whole answer' } });
});
