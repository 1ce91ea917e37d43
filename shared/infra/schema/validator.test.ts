import { mkdirSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { atOnce } from '#shared/kernel/pieces.ts';
import type { SchemaNode } from './schema-document.ts';
import { run, segmentCompiler } from './segment.ts';
import { loadSchemas, MAX_FAULTS, openAnswerChecks, queryParser } from './validator.ts';

const schemas = loadSchemas();
const start = schemas.validator('attempt/start-request');
const save = schemas.validator('attempt/save-answer-request');
const release = schemas.validator('attempt/results-released-request');

/** Returns a start with every possible field. */
function fullStart() {
  return {
    exam: {
      id: 'exam-1',
      organizationId: 'org-1',
      title: 'Toán 12',
      subject: 'Toán',
      gradeLevel: '12',
      status: 'PUBLISHED',
      deliveryMode: 'ONLINE',
      durationMinutes: 60,
      maxAttempts: 2,
      openTime: '2026-09-01T08:00:00+07:00',
      closeTime: '2026-09-02T08:00:00+07:00',
      requiresAccessPassword: false,
      shuffleQuestions: true,
      shuffleOptions: true,
      randomizePerAttempt: false,
      showResultMode: 'IMMEDIATE',
      resultsReleasedAt: '2026-09-03T08:00:00Z',
      createdById: 'teacher-1',
      assignedClassroomIds: ['class-1'],
      resultViewerTeacherIds: ['teacher-2'],
    },
    access: {
      assigned: true,
      attemptLimit: 3,
      passwordVerified: true,
      assignmentDueAt: '2026-09-01T12:00:00Z',
      link: { id: 'link-1', mode: 'GUEST_ALLOWED', active: true, expiresAt: '2026-09-01T12:00:00Z', studentLimit: 40 },
    },
    questions: [
      {
        id: 'aq-1',
        examQuestionId: 'eq-1',
        questionId: 'q-1',
        questionVersionId: 'qv-1',
        orderIndex: 0,
        score: 2.5,
        type: 'SINGLE_CHOICE',
        content: '<p>1 + 1</p>',
        contentText: '1 + 1',
        options: [
          { id: 'a', label: 'A', content: '2', isCorrect: true },
          { id: 'b', label: 'B', content: '3', isCorrect: false },
        ],
        optionOrder: ['b', 'a'],
        scoringRule: {
          mode: 'EXACT',
          maxScore: 10,
          incorrectPenalty: 0,
          minScore: -1,
          tolerance: 0.01,
          toleranceType: 'RELATIVE',
          caseSensitive: false,
          ladder: [0, 0.5, 1],
        },
        answerKey: {
          correctOptionIds: ['a'],
          statements: [{ statementId: 'a', value: true }],
          acceptedTexts: ['hai'],
          numericAnswers: [{ value: 2, tolerance: 0 }],
        },
      },
    ],
    studentInfo: { fullName: 'An', studentCode: 'S1', className: '12A', email: 'an@example.org', phone: '0900' },
    courseAttemptContext: {
      courseId: 'c',
      courseQuizReferenceId: 'r',
      lessonId: 'l',
      studentId: 's',
      organizationId: 'org-1',
      examId: 'exam-1',
      validatedBy: 'course-service',
      validatedAt: '2026-09-01T08:00:00Z',
    },
  };
}

const REQUIRED: ReadonlySet<string> = new Set(
  `/exam /exam/id /exam/status /exam/durationMinutes /exam/showResultMode /access /access/link/id /access/link/mode
  /access/link/active /questions /questions/0/questionId /questions/0/score /questions/0/type
  /questions/0/scoringRule/mode /questions/0/options/0/id /questions/0/options/1/id
  /questions/0/answerKey/statements/0/statementId /questions/0/answerKey/statements/0/value
  /questions/0/answerKey/numericAnswers/0/value`.split(/\s+/),
);

/** Returns pointers to all object members, deepest last. Array items are not members. */
function members(value: unknown, at = ''): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) => {
    const path = `${at}/${key}`;
    return Array.isArray(value) ? members(member, path) : [path, ...members(member, path)];
  });
}

/** Sets the member at a pointer, or removes it if the value is undefined. */
function change(value: object, pointer: string, to: unknown): void {
  const keys = pointer.split('/').slice(1);
  const last = keys.pop() ?? '';
  let at = value as Record<string, unknown>;
  for (const key of keys) {
    if (at[key] === undefined || at[key] === null) return;
    at = at[key] as Record<string, unknown>;
  }
  if (to === undefined) delete at[last];
  else at[last] = to;
}

t.test('a start with all fields and a minimal start are valid', async (t) => {
  const full = fullStart();
  t.strictSame(start(full), []);
  t.strictSame(full, fullStart(), 'a valid body is left as it is');
  const exam = { id: 'e', status: 'PUBLISHED', durationMinutes: 1, showResultMode: 'MANUAL' };
  const question = { questionId: 'q', score: 1, type: 'ESSAY', scoringRule: { mode: 'MANUAL' } };
  t.strictSame(start({ exam, access: {}, questions: [question] }), []);
});

t.test('null in an optional field is treated as absent', async () => {
  const isFree = (path: string) => path.startsWith('/studentInfo/');
  const optional = members(fullStart()).filter((path) => !REQUIRED.has(path) && !isFree(path));
  fc.assert(
    fc.property(fc.subarray(optional), (chosen) => {
      const [withNulls, without] = [fullStart(), fullStart()];
      for (const path of chosen) change(withNulls, path, null);
      for (const path of chosen) change(without, path, undefined);
      const faults = start(withNulls);
      return faults.length === 0 && JSON.stringify(withNulls) === JSON.stringify(without);
    }),
  );
});

t.test('a required field that is absent or null is reported by name', async (t) => {
  for (const path of REQUIRED) {
    const [absent, nulled] = [fullStart(), fullStart()];
    change(absent, path, undefined);
    change(nulled, path, null);
    t.strictSame(start(absent), [{ path, message: 'is required' }], path);
    const faults = start(nulled);
    t.ok(faults.length >= 1 && faults.every((fault) => fault.path === path), `${path} null`);
  }
});

t.test('unknown fields are dropped where producers may add fields, and refused elsewhere', async (t) => {
  const body = fullStart();
  const places = [
    '/exam',
    '/access',
    '/access/link',
    '/questions/0',
    '/questions/0/options/0',
    '/questions/0/scoringRule',
  ];
  for (const at of [...places, '/questions/0/answerKey', '/courseAttemptContext'])
    change(body, `${at}/surprise`, { deep: [1] });
  t.strictSame(start(body), []);
  t.strictSame(body, fullStart(), 'nothing of it is left to be stored');
  t.strictSame(start({ ...fullStart(), 'a/b~c': null }), [{ path: '/a~1b~0c', message: 'is not a known field' }]);
  t.equal(save({ questionId: 'q', answer: { textAnswer: 'x', other: 1 } })[0]?.path, '/answer/other');
  const inbound = {
    sourceService: 'exam-service',
    type: 'exam.results_released.v1',
    sourceEventId: 's',
    examId: 'e',
    more: 1,
  };
  t.strictSame(release(inbound), []);
  t.notOk('more' in inbound);
});

t.test('the validator reports all faults of a body at once, and quotes no value', async (t) => {
  const body = fullStart();
  const wrong: [string, unknown][] = [
    ['/exam/id', 'secret'.repeat(30)],
    ['/exam/durationMinutes', 0],
    ['/exam/maxAttempts', 1.5],
    ['/exam/openTime', '2026-02-30T00:00:00Z secret'],
    ['/exam/showResultMode', 'secret'],
    ['/access/assigned', 'secret'],
    ['/access/attemptLimit', 2 ** 53],
    ['/access/link/studentLimit', 0],
    ['/questions/0/score', -1],
    ['/questions/0/type', ''],
    ['/questions/0/orderIndex', 1.5],
    ['/questions/0/options/0/isCorrect', 'secret'],
    ['/questions/0/options/1/label', 5],
    ['/questions/0/optionOrder/1', ''],
    ['/questions/0/scoringRule/ladder/0', 1.01],
    ['/questions/0/scoringRule/tolerance', Number.POSITIVE_INFINITY],
    ['/questions/0/answerKey/acceptedTexts/0', { secret: 1 }],
    ['/studentInfo', ['secret']],
  ];
  for (const [path, value] of wrong) change(body, path, value);
  const faults = start(body);
  t.same(faults.map((fault) => fault.path).sort(), wrong.map(([path]) => path).sort());
  t.notMatch(JSON.stringify(faults), /secret/);
});

t.test('the validator writes the T and Z of timestamps as capitals', async (t) => {
  const body = fullStart();
  change(body, '/exam/openTime', '0020-01-01t00:00:00.5z');
  t.strictSame(start(body), []);
  t.equal(body.exam.openTime, '0020-01-01T00:00:00.5Z');
});

t.test('a body full of faults is checked cheaply and causes at most 1,000 faults', async (t) => {
  const option = () => ({});
  const many = <T>(count: number, make: () => T) => Array.from({ length: count }, make);
  const question = () => ({
    options: many(100, option),
    optionOrder: many(100, () => 1),
    answerKey: { acceptedTexts: many(100, () => 1) },
  });
  t.equal(start({ exam: {}, access: {}, questions: many(500, question) }).length, MAX_FAULTS);
  const long = start({ ...fullStart(), questions: many(100_000, () => 0) });
  t.equal(long.filter((fault) => fault.path === '/questions').length, 1, 'the length is reported');
  t.equal(long.length, 501, 'only as many items as could be accepted are checked');
  const wide = Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`f${index}`, 0]));
  t.strictSame(schemas.validator('attempt/submit-request')(wide), [
    { path: '', message: 'must have at most 1000 fields' },
  ]);
  const giant = schemas.validator('attempt/submit-request')({ ['k'.repeat(1_000_000)]: 1 });
  t.ok(JSON.stringify(giant).length < 500, 'a giant name does not cause a giant reply');
  for (const body of [null, 1, 'x', [], true]) t.strictSame(start(body), [{ path: '', message: 'must be an object' }]);
});

t.test('a schema file outside the subset is refused at start, with the place of the fault', async (t) => {
  const dialect = 'https://json-schema.org/draft/2020-12/schema';
  const load = (name: string, schema: object) => {
    const dir = t.testdir({});
    mkdirSync(`${dir}/x`);
    writeFileSync(`${dir}/x/${name}.json`, JSON.stringify({ $schema: dialect, $id: `x/${name}`, ...schema }));
    return loadSchemas(dir);
  };
  t.throws(() => load('a', { allOf: [] }), /x\/a#: keyword allOf/);
  t.throws(() => load('b', { type: 'object', properties: { c: {} } }), /unknown fields/);
  t.throws(() => load('c', { anyOf: [{ type: 'string' }, { type: 'number' }] }), /\[X, null\] only/);
  t.throws(() => load('d', { $id: 'x/other' }), /\$id must be x\/d/);
  t.throws(() => load('e', { $ref: 'missing' }).validator('x/e'), /x\/missing does not exist/);
  t.throws(() => load('f', { type: 'array', items: { $ref: 'f' } }).validator('x/f'), /leads back to itself/);
  t.throws(() => schemas.validator('attempt/none'), /does not exist/);
});

t.test('a checker lists the fields that it has dropped, outside arrays', async (t) => {
  const check = schemas.checker('attempt/results-released-request');
  const event = { sourceService: 'exam-service', type: 'exam.results_released.v1', sourceEventId: 'e' };
  const body = { ...event, 'a/b': 1, payload: { schemaVersion: 1, '~': 2 }, x: null };
  t.strictSame(atOnce(check(body)), {
    faults: [],
    dropped: [
      { path: '/a~1b', name: 'a/b' },
      { path: '/payload/~0', name: '~' },
      { path: '/x', name: 'x' },
    ],
  });
  t.strictSame(body, { ...event, payload: { schemaVersion: 1 } });
  const ofItems = schemas.checker('notification/intake-request');
  t.strictSame(atOnce(ofItems({ notifications: [{ userId: 'u', type: 'T', title: 't', content: '', extra: 1 }] })), {
    faults: [],
    dropped: [],
  });
});

t.test('neither a body nor an answer of a model has NaN or an infinite number', async (t) => {
  const answers = openAnswerChecks();
  for (const type of ['number', 'integer']) {
    const check = answers({ type: 'object', properties: { score: { type } } });
    t.strictSame(check({ score: 3 }), []);
    for (const score of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      t.match(check({ score }), [{ path: '/score' }], `${type} ${score}`);
      const body = fullStart();
      change(body, '/questions/0/scoringRule/tolerance', score);
      t.match(start(body), [{ path: '/questions/0/scoringRule/tolerance' }]);
    }
  }
});

const QUERY: SchemaNode = {
  type: 'object',
  'x-unknown-fields': 'dropped',
  properties: {
    page: { type: 'integer', minimum: 1, maximum: 10_000 },
    share: { type: 'number' },
    unread: { type: 'boolean' },
    type: { type: 'string', enum: ['A', 'B'] },
    q: { type: 'string', maxLength: 5 },
  },
};
const segment = segmentCompiler()(QUERY);
const parse = queryParser(QUERY, (value) => {
  const faults: { path: string; message: string }[] = [];
  atOnce(run(segment, value, faults, 10));
  return faults;
});

t.test('the query parser converts fields to their declared types', async (t) => {
  t.strictSame(parse('page=2&share=0.5&unread=true&type=A&q=a%20b'), {
    query: { page: 2, share: 0.5, unread: true, type: 'A', q: 'a b' },
    faults: [],
  });
  t.strictSame(parse(''), { query: {}, faults: [] });
  t.strictSame(parse('other=1&other=2&__proto__=x').faults, [], 'unknown names are ignored');
  t.strictSame(parse('page=&unread=&type=&q=&share'), { query: {}, faults: [] }, 'an empty value is absent');
});

t.test('the query parser clamps no value, guesses no type and builds no structure', async (t) => {
  const paths = (search: string) => parse(search).faults.map((fault) => fault.path);
  for (const page of ['0', '10001', '1.5', '1e3', ' 1', '0x1', 'NaN', '+1', '9'.repeat(400)]) {
    t.strictSame(paths(`page=${encodeURIComponent(page)}`), ['/page'], page);
  }
  for (const flag of ['1', 'TRUE']) t.strictSame(paths(`unread=${flag}`), ['/unread'], flag);
  t.strictSame(paths('type=C'), ['/type']);
  t.strictSame(paths('q=123456'), ['/q']);
  t.strictSame(paths('page=1&page=1'), ['/page'], 'a repeat');
  t.strictSame(paths(`q=${'%CC%81'.repeat(31)}`), ['/q'], 'a run of combining marks');
  t.strictSame(paths('page=1&page=x&page=2'), ['/page', '/page']);
  t.strictSame(paths('page=&page=2'), ['/page'], 'a repeat of an empty value');
  t.strictSame(paths('type[$ne]=A'), ['/type[$ne]']);
  t.strictSame(paths('unknown[]=1&a%5B0%5D=2'), ['/unknown[]', '/a[0]'], 'brackets, even in an unknown name');
});

t.test('the query parser of a route without a schema refuses brackets', async (t) => {
  const bare = queryParser({}, () => []);
  t.strictSame(bare('a=1&a=2'), { query: {}, faults: [] });
  t.equal(bare('a[]=1').faults.length, 1);
});
