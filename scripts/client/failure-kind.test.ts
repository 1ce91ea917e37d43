import t from 'tap';
import { answerJson } from '#scripts/http/local-server.ts';
import { type FailureKind, failureKind } from '../../clients/typescript/src/failure-kind.ts';
import type { ErrorCode } from '../../clients/typescript/src/index.ts';
import { failure, hangUp, openScript, type Scripted, stream, success } from './scripted-server.ts';

const STUDENT = { id: 'student-1', role: 'STUDENT' } as const;

const KINDS: readonly (readonly [kind: FailureKind, code: ErrorCode, status: number, retryAfterSeconds?: number])[] = [
  ['unknown', 'NO_REPLY', 0],
  ['unknown', 'INTERNAL', 500],
  ['unknown', 'UNAVAILABLE', 503, 2],
  ['unknown', 'UNAVAILABLE', 503],
  ['unknown', 'AUTH_THROTTLED', 429, 3],
  ['unknown', 'FOREIGN_REPLY', 500],
  ['unknown', 'FOREIGN_REPLY', 502],
  ['unknown', 'FOREIGN_REPLY', 503, 2],
  ['unknown', 'FOREIGN_REPLY', 504],
  ['unknown', 'FOREIGN_REPLY', 408],
  ['refused', 'FOREIGN_REPLY', 429],
  ['refused', 'FOREIGN_REPLY', 429, 2],
  ['final', 'FOREIGN_REPLY', 200],
  ['final', 'FOREIGN_REPLY', 404],
  ['final', 'FOREIGN_REPLY', 413],
  ['refused', 'REQUEST_TIMEOUT', 408],
  ['refused', 'RATE_LIMITED', 429, 3],
  ['refused', 'AI_PROVIDER_UNAVAILABLE', 503, 3],
  ['refused', 'RATE_LIMITED', 429, 0],
  ['final', 'EVENT_LIMIT_REACHED', 429],
  ['final', 'ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED', 503],
  ['final', 'AI_PROVIDER_INVALID_RESPONSE', 502],
  ['final', 'FORBIDDEN', 403],
  ['final', 'VALIDATION_FAILED', 400],
];

t.test('a failure is refused, unknown or final by its code, its status and its Retry-After', async (t) => {
  for (const [kind, code, status, retryAfterSeconds = null] of KINDS)
    t.equal(failureKind({ code, status, retryAfterSeconds }), kind, `${status} ${code} ${retryAfterSeconds}`);
});

const REPLIES: readonly (readonly [kind: FailureKind, name: string, reply: Scripted])[] = [
  ['unknown', 'no reply', hangUp],
  ['unknown', '500', failure(500, 'INTERNAL')],
  ['unknown', '502 of a proxy', { status: 502, body: '<h1>' }],
  ['unknown', '408 of a proxy', { status: 408, body: '<h1>' }],
  ['refused', '408', failure(408, 'REQUEST_TIMEOUT')],
  ['refused', '429', failure(429, 'RATE_LIMITED', { 'retry-after': '1' })],
  ['refused', '429 of a proxy', { status: 429, body: '<h1>' }],
  ['final', 'a lasting 429', failure(429, 'EVENT_LIMIT_REACHED')],
  ['final', 'a lasting 503', failure(503, 'ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED')],
  ['final', '403', failure(403, 'FORBIDDEN')],
];

t.test('calls, the wait for a result and streams agree on each failure', async (t) => {
  for (const [kind, name, reply] of REPLIES) {
    const { client, calls } = await openScript(t, [
      reply,
      success({}),
      success({ id: 'a', status: 'SUBMITTED' }, 202),
      reply,
      success({ id: 'a', status: 'GRADED' }),
      stream('event: snapshot\ndata: {"unreadCount":0}\n\n'),
      reply,
      stream('event: counts\ndata: {"unreadCount":1}\n\n'),
    ]);
    const student = client.with({ as: STUDENT });
    /** Calls the server, skips what the script has left for these calls, and returns the number of requests. */
    const requests = async (expected: number, work: () => Promise<unknown>): Promise<number> => {
      const before = calls.length;
      if (kind === 'final') await t.rejects(work(), { name: 'ExamhallError' }, name);
      else await work();
      const sent = calls.length - before;
      for (let rest = sent; rest < expected; rest += 1)
        await student.readAttempt({ attemptId: 'rest' }).catch(() => null);
      return sent;
    };
    const isFinal = kind === 'final';
    const read = () => student.readAttempt({ attemptId: 'a' });
    t.equal(await requests(2, read), isFinal ? 1 : 2, `${name}: a call`);
    const submit = () => student.submitAttempt({ attemptId: 'a' });
    t.equal(await requests(3, submit), isFinal ? 2 : 3, `${name}: the wait for a result`);
    const follow = async () => {
      for await (const { event } of student.streams.inbox()) if (event === 'counts') return;
    };
    t.equal(await requests(3, follow), isFinal ? 2 : 3, `${name}: a stream`);
  }
});

t.test('only a refused request is sent again where a second one may do harm', async (t) => {
  for (const [kind, name, reply] of REPLIES) {
    let sent = 0;
    const { client } = await openScript(t, [
      (response) => {
        sent += 1;
        if (typeof reply === 'function') return reply(response);
        answerJson(response, reply);
      },
      (response) => {
        sent += 1;
        response.end(JSON.stringify({ success: true, data: {} }));
      },
    ]);
    const post = client.postEvent({ attemptId: 'a', as: STUDENT, body: { type: 'TAB_HIDDEN' } });
    await post.catch(() => null);
    t.equal(sent, kind === 'refused' ? 2 : 1, name);
  }
});
