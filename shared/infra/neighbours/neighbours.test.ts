import t, { type Test } from 'tap';
import { readConfig } from '#infra/config/config.ts';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { dependencyMetrics } from '#infra/metrics/process-metrics.ts';
import { answerJson, openReceiver } from '#scripts/sandbox/local-server.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { retryAfterMs } from './call.ts';
import { sendToAnalytics } from './events.ts';
import { openContacts, resolveParents } from './profile.ts';
import { watchAnswers } from './unanswering.ts';

const waitOf = (retryAfter: string, date?: string) =>
  retryAfterMs(new Headers({ 'retry-after': retryAfter, ...(date === undefined ? {} : { date }) }));

t.test('reads Retry-After in seconds', async (t) => {
  t.equal(waitOf('0'), 0);
  t.equal(waitOf('120'), 120_000);
});

t.test('reads a Retry-After date relative to the Date of the sender, not to the local clock', async (t) => {
  t.equal(waitOf('Wed, 21 Oct 2015 07:28:30 GMT', 'Wed, 21 Oct 2015 07:28:00 GMT'), 30_000);
  t.equal(waitOf('Wed, 21 Oct 2015 07:27:00 GMT', 'Wed, 21 Oct 2015 07:28:00 GMT'), 0, 'a date in the past');
});

t.test('ignores an unreadable Retry-After', async (t) => {
  t.equal(retryAfterMs(new Headers()), null);
  for (const value of ['', 'soon', '-5', '1e9', '99999999999']) t.equal(waitOf(value), null, value);
  t.equal(waitOf('Wed, 21 Oct 2015 07:28:30 GMT'), null, 'a date without the Date of the sender');
});

t.test('a call is counted by how it ended, and the last one decides whether the service is up', async (t) => {
  let status = 200;
  const url = await openReceiver(t, (_call, response) =>
    status === 0 ? response.destroy() : answerJson(response, { status }),
  );
  const metrics = openMetrics({ process: false });
  const given = readConfig({ MONGODB_URL: 'mongodb://127.0.0.1/', ANALYTICS_SERVICE_URL: url }, 'cluster');
  const stores = async () => ({ mongodb: true, redis: false });
  const { analytics } = dependencyMetrics(metrics, given, stores).neighbours;
  if (analytics === null) throw new Error('the service is configured');

  const up = async () => /^examhall_dependency_up\{name="analytics"\} (\d)$/m.exec(await metrics.render())?.[1];
  const count = async (outcome: string) => {
    const name = `examhall_neighbour_call_duration_seconds_count{neighbour="analytics",outcome="${outcome}"}`;
    return (await metrics.render())
      .split('\n')
      .find((line) => line.startsWith(name))
      ?.slice(name.length + 1);
  };
  t.match(await metrics.render(), /^examhall_dependency_up\{name="redis"\} 0$/m);
  t.equal(await up(), undefined, 'it has not been called');
  t.equal(await count('failed'), '0');
  const call = () => sendToAnalytics(analytics, {} as never, { timeoutMs: 20_000 }).catch(() => undefined);
  for (const [answer, outcome, expected] of [
    [200, 'ok', '1'],
    [500, 'failed', '0'],
    [401, 'refused', '1'],
    [0, 'unanswered', '0'],
  ] as const) {
    status = answer;
    await call();
    t.equal(await count(outcome), '1', outcome);
    t.equal(await up(), expected, outcome);
  }
  const stopped = AbortSignal.abort();
  await sendToAnalytics(analytics, {} as never, { timeoutMs: 20_000, signal: stopped }).catch(() => undefined);
  t.equal(await count('unanswered'), '1', 'a call that its caller aborted is not counted');
});

const configured = readConfig(
  {
    MONGODB_URL: 'mongodb://127.0.0.1/',
    PROFILE_SERVICE_URL: 'http://profile',
    QUESTION_BANK_SERVICE_URL: 'http://bank',
  },
  'cluster',
);

t.test('a service is unanswering from its first failed call until it answers with any status below 500', async (t) => {
  let now = 1_000;
  const { config, unanswering } = watchAnswers(configured, () => now);
  const { profile, questionBank } = config.neighbours;
  profile?.called?.('ok', 1);
  questionBank?.called?.('failed', 1);
  t.strictSame(unanswering(), [{ name: 'question_bank', since: new Date(1_000), lastAt: new Date(1_000) }]);
  now = 2_000;
  questionBank?.called?.('unanswered', 1);
  profile?.called?.('unanswered', 1);
  t.strictSame(unanswering(), [
    { name: 'profile', since: new Date(2_000), lastAt: new Date(2_000) },
    { name: 'question_bank', since: new Date(1_000), lastAt: new Date(2_000) },
  ]);
  profile?.called?.('refused', 1);
  questionBank?.called?.('ok', 1);
  t.strictSame(unanswering(), []);
});

t.test('an observer that the configuration has already still receives each call', async (t) => {
  const heard: string[] = [];
  const first = watchAnswers(configured, () => 1);
  const { profile } = first.config.neighbours;
  if (profile === null) throw new Error('the service is configured');
  const observed = { ...first.config, neighbours: { ...first.config.neighbours, profile: { ...profile } } };
  observed.neighbours.profile.called = (outcome) => void heard.push(outcome);
  const second = watchAnswers(observed, () => 2);
  second.config.neighbours.profile?.called?.('failed', 1);
  t.strictSame(heard, ['failed']);
  t.match(second.unanswering(), [{ name: 'profile' }]);
});

/** A profile service that is unreachable. A call to it ends as `unanswered`, not with an empty list. */
const UNREACHABLE = { url: 'http://127.0.0.1:1', token: undefined };

t.test('a student id that is a path segment has no parents, and the profile service is not called', async (t) => {
  const of = (studentId: string) =>
    resolveParents(
      UNREACHABLE,
      { studentId, organizationId: null },
      { timeoutMs: 1_000, signal: new AbortController().signal },
    );
  for (const id of ['.', '..']) t.strictSame(await of(id), { kind: 'parents', ids: [], leftOut: 0 }, id);
  t.match(await of('...'), { kind: 'unanswered' });
});

t.test('an entry that is no person id does not silence the other parents', async (t) => {
  let parentIds: unknown = [];
  const url = await openReceiver(t, (_call, response) =>
    answerJson(response, { status: 200, body: { data: { parentIds } } }),
  );
  const { signal } = new AbortController();
  const many = Array.from({ length: 102 }, (_, n) => `p-${n}`);
  for (const [listed, found] of [
    [['p-1', { id: 2 }], { kind: 'parents', ids: ['p-1'], leftOut: 1 }],
    [['p-1', 'p-1', 'p 2', 'auth0|3', null, ''], { kind: 'parents', ids: ['p-1', 'auth0|3'], leftOut: 3 }],
    [many, { kind: 'parents', ids: many.slice(0, 100), leftOut: 2 }],
    [[], { kind: 'parents', ids: [], leftOut: 0 }],
    [[{ id: 2 }, 'p\n'], { kind: 'unreadable' }],
    ['p-1', { kind: 'unreadable' }],
    [null, { kind: 'unreadable' }],
  ] as const) {
    parentIds = listed;
    const resolved = await resolveParents(
      { url, token: undefined },
      { studentId: 's', organizationId: null },
      { timeoutMs: 5_000, signal },
    );
    t.strictSame(resolved, found, JSON.stringify(listed).slice(0, 60));
  }
});

const LIMITS = { timeoutMs: 10_000 };

async function contactReader(t: Test) {
  const neighbours = await openNeighbours(t);
  const clock = { now: 1_790_000_000_000 };
  const read = openContacts({ url: neighbours.url, token: 'token-of-the-test' }, () => clock.now);
  return { neighbours, clock, read: (userId: string) => read(userId, LIMITS) };
}

t.test('a contact is read from the profile service and remembered for a minute', async (t) => {
  const { neighbours, clock, read } = await contactReader(t);
  const found = { kind: 'found', contact: { email: 'student-1@school.example', name: 'Nguyễn An', language: 'vi' } };
  t.strictSame(await read('a/../b'), found);
  t.match(neighbours.calls, [
    {
      method: 'GET',
      path: '/v1/users/a%2F..%2Fb/contacts',
      headers: { 'x-internal-service': 'notification-service', 'x-internal-token': 'token-of-the-test' },
    },
  ]);
  clock.now += 60_000;
  t.strictSame(await read('a/../b'), found);
  t.equal(neighbours.calls.length, 1);
  clock.now += 1;
  await read('a/../b');
  t.equal(neighbours.calls.length, 2);
});

t.test('a person whom the profile service does not know has no contact, and a failure is not remembered', async (t) => {
  const { neighbours, read } = await contactReader(t);
  t.strictSame(await read('..'), { kind: 'found', contact: null });
  t.equal(neighbours.calls.length, 0, 'a path segment is not called');
  neighbours.answer = () => ({ status: 503, headers: { 'retry-after': '7' } });
  t.match(await read('a'), { kind: 'refused', reply: { status: 503, retryAfterMs: 7_000 } });
  // Before: a page of a proxy was no address, and suppressed the e-mail for good.
  for (const body of ['Welcome', null, [], { email: 'a@b' }]) {
    neighbours.answer = () => ({ status: 200, body });
    t.match(await read('a'), { kind: 'unanswered' });
  }
  neighbours.answer = () => ({ status: 404 });
  t.strictSame(await read('a'), { kind: 'found', contact: null });
  neighbours.answer = () => ({ status: 200, body: { data: { email: 'no address' } } });
  t.strictSame(await read('a'), { kind: 'found', contact: null });
});

t.test('the contacts of at most 1,000 persons are remembered', async (t) => {
  const { neighbours, read } = await contactReader(t);
  for (let n = 0; n <= 1_000; n++) await read(`user-${n}`);
  const { length } = neighbours.calls;
  await read('user-1000');
  t.equal(neighbours.calls.length, length);
  await read('user-0');
  t.equal(neighbours.calls.length, length + 1, 'the one that was read first is forgotten');
});
