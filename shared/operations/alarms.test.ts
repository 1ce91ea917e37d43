import fc from 'fast-check';
import t from 'tap';
import { VARIABLES } from '#infra/config/variables.ts';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { actorOf, EVENT_QUEUES } from '#shared/kernel/command.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { type AlarmFacts, alarmsOf, BUSY_COUNTS_MS, busyAlarms, longestHeld, notesOf } from './alarms.ts';
import {
  type FailingQueue,
  HELD_BACK_MS,
  heldBackAlarms,
  heldBackNotes,
  REFUSABLE,
  REFUSES_MS,
  refusalAlarms,
  stalledRunAlarms,
} from './failing-alarms.ts';

const NOW = Date.UTC(2026, 10, 23, 8);
const ago = (ms: number) => new Date(NOW - ms);

const IDLE = { due: 0, dead: 0, oldestDueMs: null, suspects: [], poisoned: null, failing: [], stillest: null };
const QUIET = { queue: 'grading', actor: 'grading', ...IDLE };
const WELL: AlarmFacts = {
  queues: [QUIET],
  liveActors: new Set(),
  redis: { answers: true },
  unanswering: [],
  busyLoops: [],
  now: 0,
  schemaFaults: [],
};
const kindsOf = (facts: Partial<AlarmFacts>) => alarmsOf({ ...WELL, ...facts }).map(({ kind }) => kind);

t.test('an idle cluster is well, also without workers', async (t) => {
  t.strictSame(alarmsOf(WELL), []);
});

t.test('due work without a live worker is an alarm at once, and with one after a minute', async (t) => {
  const due = [{ ...QUIET, due: 12, oldestDueMs: 400 }];
  t.match(alarmsOf({ ...WELL, queues: due }), [
    { kind: 'no-worker', text: 'grading: 12 due, the oldest for 0 s, and no live worker', remedy: /`grading`/ },
  ]);
  const liveActors = new Set(['grading']);
  t.strictSame(kindsOf({ queues: due, liveActors }), []);
  t.strictSame(kindsOf({ queues: [{ ...QUIET, due: 1, oldestDueMs: 59_999 }], liveActors }), []);
  t.strictSame(kindsOf({ queues: [{ ...QUIET, due: 1, oldestDueMs: 60_000 }], liveActors }), ['backlog']);
});

t.test('a suspect is an alarm with its queue and id, and no call for more workers', async (t) => {
  const held = { _id: 'held-1', aloneUntil: null };
  const alone = { _id: 'alone-1', aloneUntil: new Date('2026-11-23T08:01:00Z') };
  const toldOf = (suspects: (typeof held | typeof alone)[], liveActors = new Set(['grading'])) =>
    alarmsOf({ ...WELL, liveActors, queues: [{ ...QUIET, suspects }] });
  const text = 'grading: two runs of held-1 did not end, so it is held until it can run alone';
  const remedy = 'run `examhall trace held-1`; the command ends by itself, done or dead';
  t.strictSame(toldOf([held]), [{ kind: 'suspect', about: 'grading', text, remedy }]);
  t.match(toldOf([held, alone]), [{ text: /of alone-1 .*, so it runs alone until 2026-11-23T08:01:00.000Z; 1 more/ }]);
  t.match(toldOf([held], new Set()), [{ remedy: 'scale `grading`' }], 'without a worker it cannot run');
  const poisoned = { count: 1, newest: 'dead-1' };
  t.match(alarmsOf({ ...WELL, queues: [{ ...QUIET, dead: 3, poisoned }] }), [
    { kind: 'dead-letters', text: 'grading: 3 dead letters; 1 died in a run alone, the last one dead-1' },
  ]);
});

t.test('alarms are sorted by urgency', async (t) => {
  const queues = [{ ...QUIET, due: 1, oldestDueMs: 1, dead: 2 }];
  t.strictSame(kindsOf({ queues, redis: { answers: false }, schemaFaults: ['the schema is old'] }), [
    'schema',
    'no-worker',
    'redis-down',
    'dead-letters',
  ]);
  t.match(alarmsOf({ ...WELL, queues: [{ ...QUIET, dead: 1 }] }), [{ text: 'grading: 1 dead letter' }]);
});

t.test('a service that does not answer is one alarm, also if several workers report it', async (t) => {
  const failed = (name: string, sinceMinutes: number, lastMinutes: number) => ({
    name,
    since: ago(sinceMinutes * MINUTE),
    lastAt: ago(lastMinutes * MINUTE),
  });
  const told = alarmsOf({
    ...WELL,
    now: NOW,
    unanswering: [failed('profile', 12, 1), failed('question_bank', 1, 0), failed('profile', 40, 3)],
  });
  t.match(told, [
    { kind: 'dependency-down', text: /^the service `profile` .* 40 min$/, remedy: /`PROFILE_SERVICE_URL`$/ },
    { kind: 'dependency-down', remedy: /`QUESTION_BANK_SERVICE_URL`$/ },
  ]);
  t.strictSame(
    alarmsOf({ ...WELL, now: NOW, unanswering: [failed('profile', 60, 15)] }),
    [],
    'an old failure is no alarm',
  );
  t.match(alarmsOf({ ...WELL, now: NOW, unanswering: [failed('webhook', 1, 1)] }), [
    { remedy: /`NOTIFICATION_WEBHOOK_URL`/ },
  ]);
  t.match(alarmsOf({ ...WELL, now: NOW, unanswering: [failed('email', 1, 1)] }), [
    { remedy: /`NOTIFICATION_EMAIL_HOST`/ },
  ]);
});

t.test('commands that wait for a setting are a note that names it, as a trace does', async (t) => {
  const parents = { queue: 'gradenotices:parent', actor: 'gradenotices', unserved: 12, dead: 0, failing: [] } as const;
  const served = { ...parents, queue: 'gradenotices:student', unserved: 0 } as const;
  const live = [
    { actor: 'grading', queues: ['grading'] },
    { actor: 'gradenotices', queues: ['gradenotices:student'] },
  ];
  t.strictSame(notesOf([served, parents], live, 0), [
    {
      kind: 'not-configured',
      about: 'gradenotices:parent',
      text: 'gradenotices:parent: 12 waiting, because the profile service is not configured',
      remedy: 'set `PROFILE_SERVICE_URL`',
    },
  ]);
  const neither = [{ actor: 'gradenotices', queues: [] }];
  t.match(notesOf([parents], neither, 0), [{ remedy: 'set `NOTIFICATION_SERVICE_URL`' }]);
});

t.test('each dead letter is either an alarm or a note', async (t) => {
  for (const queue of QUEUES) {
    const facts = { ...QUIET, queue, actor: actorOf(queue), dead: 2, unserved: 0 };
    const alarms = alarmsOf({ ...WELL, queues: [facts] });
    const notes = notesOf([facts], [], 0);
    t.match([...alarms, ...notes], [{ about: queue, text: `${queue}: 2 dead letters` }]);
    t.equal(alarms.length + notes.length, 1, queue);
    t.equal(notes.length, EVENT_QUEUES.includes(queue) ? 1 : 0, queue);
  }
});

const newest = { at: ago(1_000), message: 'it failed', _id: 'c-1' };

/** A queue whose commands are refused since `ms` ago. */
const refused = (queue: string, service: string, status: number, ms: number, count = 1): FailingQueue => ({
  queue,
  failing: [{ refusal: { service, status }, count, refusedSince: ago(ms), heldBack: null, newest }],
});

t.test('a refusal is an alarm after 30 s, and names service, status, time, queues and the credential', async (t) => {
  const early = refused('gradenotices:student', 'notification', 401, REFUSES_MS - 1);
  t.strictSame(refusalAlarms([early], NOW), []);
  const queues = [
    refused('gradenotices:student', 'notification', 401, 31_000, 25),
    refused('gradenotices:parent', 'notification', 401, 45_000),
    refused('accountnotices', 'notification', 401, 40_000),
  ];
  t.strictSame(refusalAlarms(queues, NOW), [
    {
      kind: 'dependency-refuses',
      about: 'notification',
      text: 'the service `notification` answers 401 since 45 s (2026-11-23T07:59:15.000Z), and 27 commands of accountnotices, gradenotices:parent, gradenotices:student wait',
      remedy:
        'correct `NOTIFICATION_TOKEN_AUTH_SERVICE` or `NOTIFICATION_TOKEN_ATTEMPT_SERVICE` or `NOTIFICATION_INTERNAL_SERVICE_TOKEN` or `INTERNAL_SERVICE_TOKEN`; the commands then go on by themselves',
      since: '2026-11-23T07:59:15.000Z',
      commands: 27,
      status: 401,
      settings: [
        'NOTIFICATION_TOKEN_AUTH_SERVICE',
        'NOTIFICATION_TOKEN_ATTEMPT_SERVICE',
        'NOTIFICATION_INTERNAL_SERVICE_TOKEN',
        'INTERNAL_SERVICE_TOKEN',
      ],
    },
  ]);
});

t.test(
  'a refusal of each service names a variable that exists: a credential, or the address of a missing route',
  async (t) => {
    for (const service of REFUSABLE) {
      for (const status of [401, 403, 404, 405]) {
        const [alarm] = refusalAlarms([refused('settlement', service, status, 60_000)], NOW);
        t.match(alarm, { kind: 'dependency-refuses', about: service, status });
        const isAddress = status >= 404;
        for (const name of alarm?.settings ?? []) {
          t.ok(Object.hasOwn(VARIABLES, name), name);
          t.match(name, isAddress ? /_(URL|HOST)$/ : /_(TOKEN|SERVICE|USER|PASSWORD)$/);
        }
        t.ok(alarm?.settings?.length);
      }
    }
  },
);

t.test('one dependency that refuses with two statuses is two alarms', async (t) => {
  const queues = [
    refused('gradenotices:student', 'notification', 404, 60_000),
    refused('gradenotices:parent', 'profile', 403, 60_000),
    refused('accountnotices', 'notification', 401, 60_000),
  ];
  t.match(refusalAlarms(queues, NOW), [
    { about: 'notification', status: 401, text: / 1 command of accountnotices waits$/ },
    { about: 'notification', status: 404, settings: ['NOTIFICATION_SERVICE_URL'] },
    { about: 'profile', status: 403, settings: ['INTERNAL_SERVICE_TOKEN'] },
  ]);
});

t.test('the alarm of a queue that is held back has the newest error of all its commands', async (t) => {
  const held = (queue: string): FailingQueue => ({
    queue,
    failing: [
      { refusal: null, count: 9, refusedSince: null, heldBack: { count: 3, since: ago(1_200_000) }, newest },
      {
        refusal: { service: 'profile', status: 403 },
        count: 5,
        refusedSince: ago(700_000),
        heldBack: { count: 2, since: ago(700_000) },
        newest: { at: ago(10), message: 'the profile service answered 403', _id: 'c-2' },
      },
      { refusal: { service: 'profile', status: 404 }, count: 5, refusedSince: ago(5), heldBack: null, newest },
    ],
  });
  t.strictSame(heldBackAlarms([held('gradenotices:parent')], NOW), [
    {
      kind: 'held-back',
      about: 'gradenotices:parent',
      text: 'gradenotices:parent: 5 commands have backed off for over 10 minutes, the first for 20 min; newest error: the profile service answered 403',
      remedy: 'remove the cause, which `examhall trace c-2` names; the commands then go on by themselves',
      since: '2026-11-23T07:40:00.000Z',
      commands: 5,
      error: 'the profile service answered 403',
    },
  ]);
  for (const queue of QUEUES) {
    const told = [...heldBackAlarms([held(queue)], NOW), ...heldBackNotes([held(queue)], NOW)];
    t.match(told, [{ about: queue, commands: 5 }], `${queue}: an alarm or a note`);
    t.equal(told.length, 1);
  }
});

t.test('a run is stalled once it has stored no step for ten minutes', async (t) => {
  const running = (ms: number) => [
    { queue: 'grading', actor: 'grading', stillest: { _id: 'c-1', workerId: 'grading@host:1', movedAt: ago(ms) } },
  ];
  t.strictSame(stalledRunAlarms(running(HELD_BACK_MS - 1), NOW), []);
  t.match(stalledRunAlarms(running(HELD_BACK_MS), NOW), [
    {
      kind: 'stalled-run',
      text: 'grading: c-1 runs since 10 min without a step, under the lease of grading@host:1',
      remedy: /^restart that `grading` process/,
    },
  ]);
});

t.test('no order of the queues changes an alarm, and each refused command is in exactly one', async () => {
  const queue = fc.record({
    queue: fc.constantFrom(...QUEUES),
    failing: fc.array(
      fc.record({
        refusal: fc.option(
          fc.record({ service: fc.constantFrom(...REFUSABLE), status: fc.constantFrom(401, 403, 404, 405) }),
        ),
        count: fc.integer({ min: 1, max: 10_000 }),
        refusedSince: fc.integer({ min: REFUSES_MS, max: 1_000_000 }).map(ago),
        heldBack: fc.constant(null),
        newest: fc.constant(newest),
      }),
      { maxLength: 4 },
    ),
  });
  fc.assert(
    fc.property(fc.uniqueArray(queue, { selector: (one) => one.queue }), (queues) => {
      const alarms = refusalAlarms(queues, NOW);
      const counted = alarms.reduce((sum, { commands = 0 }) => sum + commands, 0);
      const all = queues.flatMap(({ failing }) => failing.filter(({ refusal }) => refusal !== null));
      const names = alarms.map(({ about, status }) => `${about} ${status}`);
      const backwards = refusalAlarms(queues.toReversed(), NOW);
      return (
        counted === all.reduce((sum, { count }) => sum + count, 0) &&
        new Set(names).size === names.length &&
        JSON.stringify(backwards) === JSON.stringify(alarms)
      );
    }),
  );
});

const piece = (heldMs: number, agoMs = MINUTE) => ({ heldMs, at: ago(agoMs) });

t.test('each process that one piece of work held is one alarm with its longest recent piece', async (t) => {
  const [web, grading] = ['web@a:7', 'grading@b:9:1f'];
  const alarms = busyAlarms(
    [
      { process: web, ...piece(2_500) },
      { process: web, ...piece(60_000, BUSY_COUNTS_MS) },
      { process: grading, ...piece(9_240, 2 * MINUTE) },
      { process: web, ...piece(3_900) },
      { process: 'delivery@c:3', ...piece(2_499) },
    ],
    NOW,
  );
  const remedy = 'read its log at 2026-11-23T07:58:00.000Z: the request or the run that ended then is the cause';
  const text = 'grading@b:9:1f: one piece of work held its event loop for 9.2 s, 2 min ago';
  t.strictSame(alarms[0], { kind: 'busy-loop', about: grading, heldMs: 9_240, text, remedy });
  t.match(alarms.slice(1), [{ about: web, heldMs: 3_900 }]);
  t.equal(alarms.length, 2, 'neither shorter nor old pieces');
});

t.test('a longer piece replaces a shorter one, and any replaces an old one', async (t) => {
  t.equal(longestHeld(null, null, NOW), null);
  const [short, long, old] = [piece(1_000), piece(2_000), piece(9_000, BUSY_COUNTS_MS)];
  t.equal(longestHeld(short, long, NOW), long);
  t.equal(longestHeld(long, short, NOW), long);
  t.equal(longestHeld(old, short, NOW), short);
  t.equal(longestHeld(old, null, NOW), null);
});
