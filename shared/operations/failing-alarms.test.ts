import fc from 'fast-check';
import t from 'tap';
import { VARIABLES } from '#infra/config/variables.ts';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
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
