import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import t from 'tap';
import { Permanent } from '#infra/channels/channel.ts';
import { readConfig } from '#infra/config/config.ts';
import { OwnerFailed, refusal } from '#infra/neighbours/owner-call.ts';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import { SETTLEMENT_BACKOFF } from '#shared/classifier/generation.ts';
import { ProviderFailure } from '#shared/classifier/tasks/task.ts';
import type { Outcome, Run, WorkerDeps } from './actor.ts';
import { gradeNoticesActor } from './grade-notices/actor.ts';
import { nextStateOf } from './next-state.ts';
import { noticeOutcome, profileRefusal } from './notice-outcome.ts';

const OUTBOX = { baseMs: 5_000, capMs: 3_600_000 };
const DELIVERIES = 30;

/** Returns the waits between the delivery attempts of a notice that all end in this outcome, in milliseconds. */
function waitsOf(outcome: Outcome): number[] {
  return Array.from({ length: DELIVERIES - 1 }, (_, n) => {
    const command = { queue: 'gradenotices:student', attempts: n + 1, maxAttempts: DELIVERIES } as const;
    const next = nextStateOf(command, outcome, { backoff: OUTBOX, random: 0.5 });
    if (next.to !== 'AGAIN') throw new Error(`attempt ${n + 1} is ${next.to}`);
    return next.inMs;
  });
}

const busy = (retryAfterMs: number | null) =>
  noticeOutcome({ kind: 'refused', reply: { status: 503, body: null, retryAfterMs } }, { recipients: 1 });
const PLAIN = waitsOf(busy(null));

t.test('a notice is retried for about a day, even if its receiver requests shorter delays', async (t) => {
  const hours = PLAIN.reduce((sum, wait) => sum + wait, 0) / 3_600_000;
  t.ok(hours > 15 && hours < 25, `${hours} hours`);
  t.strictSame(waitsOf(busy(1_000)), PLAIN, '30 times 503 with Retry-After: 1');
  t.strictSame(waitsOf(busy(0)), PLAIN, 'Retry-After: 0, and a date that is over');
});

t.test('a receiver may lengthen the delay of a retry, up to one hour', async (t) => {
  const wanted = 10 * 60_000;
  t.strictSame(
    waitsOf(busy(wanted)),
    PLAIN.map((wait) => Math.max(wait, wanted + 500)),
    'and a random part of a second',
  );
  t.strictSame(new Set(waitsOf(busy(86_400_000))), new Set([3_600_500]));
});

t.test(
  'a classification job and a settlement back off for at least 3 s × 2ⁿ⁻¹ after attempt n, up to their cap',
  async () => {
    const { retryBaseDelayMs } = readConfig({ MONGODB_URL: 'mongodb://127.0.0.1/' }, 'cluster').classifier.worker;
    const jobs = { baseMs: retryBaseDelayMs, capMs: 300_000 };
    const unit = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(
        fc.constantFrom(jobs, SETTLEMENT_BACKOFF),
        fc.integer({ min: 1, max: 249 }),
        unit,
        (rules, n, random) => {
          const outcome: Outcome = { kind: 'retry', error: new Error('away') };
          const next = nextStateOf({ attempts: n, maxAttempts: 250 }, outcome, { backoff: rules, random });
          return (
            next.to === 'AGAIN' && next.inMs >= Math.min(rules.capMs, 3_000 * 2 ** (n - 1)) && next.inMs <= rules.capMs
          );
        },
      ),
    );
  },
);

t.test('a retry on the last attempt makes the command DEAD, whatever delay was requested', async (t) => {
  const command = { queue: 'gradenotices:student', attempts: DELIVERIES, maxAttempts: DELIVERIES } as const;
  const next = nextStateOf(command, busy(1_000), { backoff: OUTBOX, random: 0 });
  t.strictSame(next, {
    to: 'DEAD',
    error: {
      fingerprint: 'Error: the notification service answered <n>',
      message: 'the notification service answered 503',
      code: null,
    },
  });
});

t.test('a missing reply is stored with its receiver and root cause, under one fingerprint', async (t) => {
  const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:3000'), { code: 'ECONNREFUSED' });
  const failed = noticeOutcome(
    { kind: 'unanswered', error: new TypeError('fetch failed', { cause: refused }) },
    { recipients: 1 },
  );
  const late = noticeOutcome(
    { kind: 'unanswered', error: AbortSignal.abort(new DOMException('late', 'TimeoutError')).reason },
    { recipients: 1 },
  );
  const errorOf = (outcome: Outcome) => {
    const next = nextStateOf({ attempts: 1, maxAttempts: DELIVERIES }, outcome, { backoff: OUTBOX, random: 0 });
    return next.to === 'AGAIN' ? next.error : null;
  };
  const fingerprint = 'Error: the notification service sent no complete reply';
  t.strictSame(errorOf(failed), {
    fingerprint,
    message: 'the notification service sent no complete reply (ECONNREFUSED)',
    code: null,
  });
  t.strictSame(errorOf(late), {
    fingerprint,
    message: 'the notification service sent no complete reply (TimeoutError)',
    code: null,
  });
});

t.test('a failure is stored with the code that a trace reads', async (t) => {
  const codeOf = (outcome: Outcome) => {
    const next = nextStateOf({ attempts: 1, maxAttempts: DELIVERIES }, outcome, { backoff: OUTBOX, random: 0 });
    return 'error' in next ? next.error?.code : undefined;
  };
  const answered = (status: number) => ({ status, body: null, retryAfterMs: null });
  const refused = (status: number) => noticeOutcome({ kind: 'refused', reply: answered(status) }, { recipients: 1 });
  t.equal(codeOf(refused(422)), 'RECEIVER_REFUSED');
  t.equal(codeOf(refused(401)), 'MISCONFIGURED');
  t.equal(codeOf(profileRefusal(answered(404))), 'MISCONFIGURED');
  t.equal(codeOf(profileRefusal(answered(500))), null);
  const retry = (error: Error) => codeOf({ kind: 'retry', error });
  t.equal(retry(new Permanent('the webhook receiver answered 410')), 'RECEIVER_REFUSED');
  t.equal(retry(refusal('wallet', answered(402))), 'WALLET_EMPTY');
  t.equal(retry(refusal('usage', answered(403))), 'MISCONFIGURED');
  t.equal(retry(refusal('usage', answered(500))), 'OWNER_FAILED');
  t.equal(retry(new OwnerFailed('usage', 'could not be reached')), 'OWNER_FAILED');
  t.equal(retry(new ProviderFailure('AI_PROVIDER_CIRCUIT_OPEN', 'open', { message: 'x' })), 'CIRCUIT_OPEN');
  t.equal(retry(new ProviderFailure('AI_PROVIDER_TIMEOUT', 'passing', { message: 'x' })), null);
  t.equal(retry(new Error('the wallet service answered 402')), null, 'the text alone has no code');
});

t.test('a refusal of settings is stored with its service and status, and no other failure is', async (t) => {
  const refusalOf = (outcome: Outcome) => {
    const next = nextStateOf({ attempts: 1, maxAttempts: DELIVERIES }, outcome, { backoff: OUTBOX, random: 0 });
    return 'error' in next ? (next.error?.refusal ?? null) : null;
  };
  const answered = (status: number) => ({ status, body: null, retryAfterMs: null });
  for (let status = 400; status < 600; status += 1) {
    const isRefusal = [401, 403, 404, 405].includes(status);
    const expected = (service: string) => (isRefusal ? { service, status } : null);
    const notice = noticeOutcome({ kind: 'refused', reply: answered(status) }, { recipients: 1 });
    t.strictSame(refusalOf(notice), expected('notification'), `notification ${status}`);
    t.strictSame(refusalOf(profileRefusal(answered(status))), expected('profile'), `profile ${status}`);
    t.strictSame(
      refusalOf({ kind: 'retry', error: refusal('wallet', answered(status)) }),
      expected('wallet'),
      `wallet ${status}`,
    );
  }
  t.equal(refusalOf({ kind: 'retry', error: new Error('the wallet service answered 401') }), null);
});

t.test('a fingerprint and a message are cut between characters, never inside one', async (t) => {
  const command = { queue: 'classifier', attempts: 1, maxAttempts: 1 } as const;
  for (const length of [118, 119, 120, 498, 499, 500]) {
    const error = new Error(`${'x'.repeat(length)}😀😀`);
    const next = nextStateOf(command, { kind: 'retry', error }, { backoff: OUTBOX, random: 0.5 });
    // JSON escapes half characters only.
    t.notMatch(JSON.stringify(next), /\\ud83d/, `after ${length} letters`);
    t.match(JSON.stringify(next), /x{100}/);
  }
});

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
