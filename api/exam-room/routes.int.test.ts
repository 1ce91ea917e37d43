import t from 'tap';
import type { Route } from '#api/route.ts';
import { attempts, examActs, regrades } from '#infra/mongo/attempt/collections.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { newId } from '#shared/kernel/ids.ts';
import { callHttp } from '#testing/clients/call.ts';
import { inProcessDoor } from '#testing/doors/in-process-door.ts';
import { openTestDoor } from '#testing/doors/test-door.ts';
import { graded, postRegrade, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { examRoomRoutes } from './routes.ts';

const mongo = await openTestMongo(t);
// No worker runs: a request that is accepted would wait, and fail the test.
const routes = examRoomRoutes(inProcessDoor(mongo, {}));
const { port } = await openTestDoor(t, { schemas: 'product', routes });

interface Person {
  id: string;
  role: string;
}
const TEACHER = { id: 'teacher-1', role: 'TEACHER' };
const STRANGER = { id: 'stranger', role: 'TEACHER' };
const ADMIN = { id: 'admin-1', role: 'ADMIN' };
const OTHERS = [
  { id: 'student-1', role: 'STUDENT' },
  { id: 'parent-1', role: 'PARENT' },
];
const REASON = 'the fire alarm';

const examId = `exam-${newId()}`;
const attempt = await storeAttempt(mongo, { ...graded(), examId });
await postRegrade(mongo, examId, 'REGRADE_APPLY');
const regradeId = (await regrades(mongo).findOne({ examId }))?._id ?? '';
const IDS = { examId, attemptId: attempt._id, regradeId, actId: newId() };

type Ids = Readonly<Record<string, string>>;
interface Sent {
  by?: Person | null;
  ids?: Ids;
  query?: string;
  body?: unknown;
  key?: string | null;
}

function send({ method, path }: Route, { by = TEACHER, ids = {}, query = '', body, key = newId() }: Sent = {}) {
  const target = path.replace(/:(\w+)/g, (_, name: string) => ({ ...IDS, ...ids })[name] ?? '');
  const headers = {
    ...(by === null ? {} : { 'x-user-id': by.id, 'x-user-role': by.role }),
    ...(key === null ? {} : { 'idempotency-key': key }),
  };
  return callHttp(`http://127.0.0.1:${port}`, method, `${target}${query}`, {
    headers,
    ...(method === 'POST' ? { body: body ?? {} } : {}),
  });
}

/** Bodies of an act that only lack a valid reason, and the path of each fault. */
const REASONS: readonly Case[] = [
  [{}, '/reason'],
  [{ reason: 'four' }, '/reason'],
  [{ reason: 'a'.repeat(501) }, '/reason'],
  [{ reason: 12_345 }, '/reason'],
  [{ reason: REASON, force: true }, '/force'],
  [[], ''],
];
type Case = readonly [body: unknown, ...paths: string[]];

const withMinutes = (body: object) => ({ minutes: 10, reason: REASON, ...body });
const MINUTES: readonly Case[] = [
  [{ reason: REASON }, '/minutes'],
  ...[0, 601, -1, 1.5, '10', null].map((minutes): Case => [withMinutes({ minutes }), '/minutes']),
  [{ minutes: 0, reason: 'four', extra: 1 }, '/minutes', '/reason', '/extra'],
];
const students = (wrap: (body: object) => object): readonly Case[] => [
  [wrap({ studentIds: [] }), '/studentIds'],
  [wrap({ studentIds: 'student-1' }), '/studentIds'],
  [wrap({ studentIds: ['student-1', ''] }), '/studentIds/1'],
  [wrap({ studentIds: Array.from({ length: 10_001 }, (_, n) => `student-${n}`) }), '/studentIds'],
];
const change = (...changes: unknown[]) => ({ changes, reason: REASON });

/** Valid and invalid input of each route by its operation. A route that is missing fails the test. */
const INPUT: Readonly<Record<string, { valid?: object; bodies?: readonly Case[]; queries?: readonly Case[] }>> = {
  submitAttempt: {
    valid: { source: 'TEACHER', reason: REASON },
    bodies: [
      [{ source: 'TEACHER' }, '/reason'],
      [{ source: 'TEACHER', reason: 'four' }, '/reason'],
      [{ source: 'TIMEOUT', reason: REASON }, '/source'],
      [{ source: 'TEACHER', reason: REASON, force: true }, '/force'],
    ],
  },
  giveExtraTime: { valid: withMinutes({}), bodies: [...MINUTES, ...students(withMinutes)] },
  listExtraTime: {},
  submitAll: {
    valid: { reason: REASON },
    bodies: [...REASONS, ...students((body) => ({ reason: REASON, ...body }))],
  },
  reopenAttempt: { valid: withMinutes({}), bodies: MINUTES },
  voidAttempt: { valid: { reason: REASON }, bodies: REASONS },
  restoreAttempt: { valid: { reason: REASON }, bodies: REASONS },
  readExamAct: {},
  createRegrade: {
    valid: change({ questionId: 'choice', award: 'FULL' }),
    bodies: [
      [{ reason: REASON }, '/changes'],
      [change(), '/changes'],
      [change(...Array.from({ length: 51 }, (_, n) => ({ questionId: `q${n}`, award: 'FULL' }))), '/changes'],
      [{ changes: [{ questionId: 'choice', award: 'FULL' }], reason: 'four' }, '/reason'],
      [change({ award: 'FULL' }), '/changes/0/questionId'],
      [change({ questionId: 'choice', award: 'HALF' }), '/changes/0/award'],
      [change({ questionId: 'choice', award: 'FULL', score: 2 }), '/changes/0/score'],
      [change({ questionId: 'choice' }), '/changes/0'],
      [change({ questionId: 'choice', award: 'FULL', answerKey: { correctOptionIds: ['a'] } }), '/changes/0'],
      [
        change({ questionId: 'choice', answerKey: { correctOptionIds: [1] } }),
        '/changes/0/answerKey/correctOptionIds/0',
      ],
      [change({ questionId: 'choice', scoringRule: { mode: 'GUESS' } }), '/changes/0/scoringRule/mode'],
    ],
  },
  listRegrades: {
    queries: [
      ['?limit=0', '/limit'],
      ['?limit=101', '/limit'],
      ['?limit=x', '/limit'],
    ],
  },
  readRegrade: {},
  listRegradeRows: { queries: [['?limit=501', '/limit']] },
  downloadRegradeRows: { queries: [['?separator=%7C&decimal=x', '/separator', '/decimal']] },
  applyRegrade: { valid: { reason: REASON }, bodies: REASONS },
  discardRegrade: { valid: { reason: REASON }, bodies: REASONS },
};

/** Everything that an act may write. */
async function stored() {
  return {
    attempt: await attempts(mongo).findOne({ _id: attempt._id }),
    acts: await examActs(mongo).countDocuments(),
    regrades: await regrades(mongo).find().toArray(),
    commands: await mailboxOf(mongo, 'examroom').countDocuments(),
    audit: await operatorAudit(mongo).countDocuments(),
  };
}
const before = await stored();

for (const route of routes) {
  const { operation, method, path } = route;
  const { valid = {}, bodies = [], queries = [] } = INPUT[operation] ?? {};
  const isAct = method === 'POST';
  t.test(`${method} ${path} refuses callers, unknown objects and bad input, and writes nothing`, async (t) => {
    t.ok(INPUT[operation], 'the route has a row in the table');
    t.equal(bodies.length > 0, isAct);
    const refused = async (sent: Sent, expected: object, about: string) =>
      t.match(await send(route, { body: valid, ...sent }), expected, about);
    await refused({ by: null }, { status: 401 }, 'no caller');
    for (const by of OTHERS.slice(operation === 'submitAttempt' ? 1 : 0)) {
      await refused({ by }, { status: 403, code: 'FORBIDDEN' }, by.role);
    }
    if (isAct) await refused({ key: null }, { status: 400, code: 'IDEMPOTENCY_KEY_REQUIRED' }, 'no key');

    if (path.includes(':examId')) {
      await refused({ by: STRANGER }, { status: 404, code: 'EXAM_NOT_FOUND' }, 'a stranger');
      await refused({ by: ADMIN, ids: { examId: 'none' } }, { status: 404, code: 'EXAM_NOT_FOUND' }, 'no exam');
    }
    if (path.includes(':attemptId')) {
      await refused({ by: STRANGER }, { status: 403, code: 'FORBIDDEN' }, 'a stranger');
      await refused({ ids: { attemptId: newId() } }, { status: 404, code: 'ATTEMPT_NOT_FOUND' }, 'no attempt');
    }
    if (path.includes(':regradeId')) {
      await refused({ ids: { regradeId: newId() } }, { status: 404, code: 'REGRADE_NOT_FOUND' }, 'no regrade');
    }
    if (path.includes(':actId')) await refused({}, { status: 404, code: 'EXAM_ACT_NOT_FOUND' }, 'no act');

    for (const [input, ...paths] of [...bodies, ...queries]) {
      const about = JSON.stringify(input).slice(0, 100);
      const { status, code, json } = await send(route, isAct ? { body: input } : { query: `${input}` });
      t.match({ status, code }, { status: 400, code: 'VALIDATION_FAILED' }, about);
      const found = new Set<string>((json.details ?? []).map((detail: { path: string }) => detail.path));
      t.strictSame([...found].sort(), [...paths].sort(), about);
    }
    t.strictSame(await stored(), before, 'nothing is written');
  });
}

t.test(
  'a teacher sees the grants for all, the own ones, and of others the students whom the teacher examines',
  async (t) => {
    const route = routes.find(({ operation }) => operation === 'listExtraTime');
    const time = {
      examId: `exam-${newId()}`,
      kind: 'EXTRA_TIME',
      minutes: 5,
      reason: REASON,
      updated: 0,
      sitting: 0,
    } as const;
    const own = await storeAttempt(mongo, { examId: time.examId });
    const scope = { createdById: 'other', assignedClassroomIds: [], resultViewerTeacherIds: [] };
    const foreign = await storeAttempt(mongo, { examId: time.examId, scope });
    const elsewhere = await storeAttempt(mongo, {});
    const crowd = Array.from({ length: 10_000 }, (_, n) => `student-of-other-${n}`);
    const given: [by: string, students: string[] | null][] = [
      ['teacher-1', ['not-started', foreign.studentId]],
      ['other', ['not-started']],
      ['other', [...crowd, own.studentId]],
      ['other', []],
      ['other', [elsewhere.studentId, own.studentId, foreign.studentId]],
      ['other', null],
    ];
    await examActs(mongo).insertMany(
      given.map(([id, studentIds], n) => {
        return { ...time, _id: newId(), studentIds, by: { id, role: 'TEACHER' as const }, at: new Date(10 - n) };
      }),
    );

    const list = async (by: Person) => {
      const { status, data } = await send(route as Route, { by, ids: { examId: time.examId } });
      t.equal(status, 200);
      return data.items.map((item: { by: string; studentIds: string[] | null }) => [item.by, item.studentIds]);
    };
    t.strictSame(await list(ADMIN), given, 'an admin sees all, the newest first');
    t.strictSame(await list(TEACHER), [
      ['teacher-1', ['not-started', foreign.studentId]],
      ['other', [own.studentId]],
      ['other', [own.studentId]],
      ['other', null],
    ]);
    t.strictSame(await list({ id: 'other', role: 'TEACHER' }), [['teacher-1', [foreign.studentId]], ...given.slice(1)]);
  },
);
