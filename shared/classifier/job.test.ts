import fc from 'fast-check';
import t from 'tap';
import { BATCH_SIZE, type JobRequest, openKeyOf } from './job.ts';
import { startOf } from './job-view.ts';
import { contextOf, jobRequestFaults, newJob } from './new-job.ts';

const ORIGIN = { id: 'job-1', now: new Date(0), actorRole: 'TEACHER', slots: { actorSlot: 0, organizationSlot: 0 } };

function jobRequest(change: Partial<JobRequest> = {}): JobRequest {
  return {
    actorId: 'a',
    organizationId: 'o',
    filters: { 'a.b': '$x' },
    questionIds: ['q1', 'q2'],
    fields: ['topic'],
    mode: 'SUGGEST',
    overwrite: false,
    threshold: 0.7,
    ...change,
  };
}

t.test('batches hold every question once, in order, five at a time', async (t) => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 40 }), (ids) => {
      const { batches, job } = newJob(jobRequest({ questionIds: ids }), ORIGIN, { kind: 'NONE' });
      const sizes = batches.map(({ questionIds }) => questionIds.length);
      return (
        JSON.stringify(batches.flatMap(({ questionIds }) => questionIds)) === JSON.stringify(ids) &&
        sizes.slice(0, -1).every((size) => size === BATCH_SIZE) &&
        job.counts.batchesTotal === batches.length &&
        job.counts.total === ids.length
      );
    }),
  );
  t.pass('the property holds for every selection');
});

t.test('a batch stores those of its questions that the bank knows', async (t) => {
  const ids = ['q1', 'q2', 'q3', 'q4', 'q5', 'q6'];
  const questions = new Map(['q6', 'q2', 'q1'].map((id) => [id, { id, content: `text of ${id}` }]));
  const { batches, job, selection } = newJob(jobRequest({ questionIds: ids }), ORIGIN, {
    kind: 'LOADED',
    known: questions,
  });
  t.strictSame(
    batches.map(({ contextText }) => contextOf(contextText ?? '').map(({ id }) => id)),
    [['q1', 'q2'], ['q6']],
  );
  t.match(job, { context: 'LOADED', status: 'PENDING', open: true, round: 1, revision: 1 });
  t.equal(selection.filtersText, '{"a.b":"$x"}');
});

t.test('a job without its questions is created FAILED and does not block an equal job', async (t) => {
  const { job, batches } = newJob(jobRequest({ questionIds: ['q1'] }), ORIGIN, { kind: 'FAILED' });
  t.match(job, {
    status: 'FAILED',
    open: false,
    error: { code: 'AI_QUESTION_CONTEXT_FAILED' },
    finishedAt: new Date(0),
  });
  t.equal(batches[0]?.contextText, null);
});

t.test('a duplicate question or field is a fault at its second position', async (t) => {
  t.strictSame(
    jobRequestFaults({ questionIds: ['a', 'b', 'a'], fields: ['topic', 'topic'] }).map(({ path }) => path),
    ['/questionIds/2', '/fields/1'],
  );
  t.strictSame(jobRequestFaults({ questionIds: ['a', 'b'], fields: 'topic' }), []);
  t.strictSame(jobRequestFaults(null), []);
});

const requests: fc.Arbitrary<JobRequest> = fc.record({
  actorId: fc.string({ minLength: 1 }),
  organizationId: fc.string({ minLength: 1 }),
  filters: fc.dictionary(fc.string(), fc.jsonValue() as fc.Arbitrary<unknown>),
  questionIds: fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 12 }),
  fields: fc.uniqueArray(fc.constantFrom('subject', 'topic', 'tags', 'chapter', 'a.b'), { minLength: 1 }),
  mode: fc.constantFrom('SUGGEST', 'AUTO'),
  overwrite: fc.boolean(),
  threshold: fc.double({ min: 0, max: 1, noNaN: true }),
});

/** Returns a value with the members of its objects in reverse order. */
function turnedKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(turnedKeys);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, held]) => [key, turnedKeys(held)]),
  );
}

t.test('the order of ids, fields and filter keys does not change the open key', async (t) => {
  fc.assert(
    fc.property(requests, (request) => {
      const turned: JobRequest = {
        ...request,
        questionIds: request.questionIds.toReversed(),
        fields: request.fields.toReversed(),
        filters: turnedKeys(request.filters) as Record<string, unknown>,
      };
      return openKeyOf(turned) === openKeyOf(request);
    }),
  );
  t.pass('the order never changes the key');
});

t.test('every other difference changes the open key', async (t) => {
  const request = jobRequest({ filters: { list: [1, 2], deep: { b: 1, a: '2' } } });
  const others: Partial<JobRequest>[] = [
    { actorId: 'b' },
    { organizationId: 'p' },
    { actorId: 'o', organizationId: 'a' },
    { filters: {} },
    { filters: { list: [2, 1], deep: { b: 1, a: '2' } } },
    { filters: { list: [1, 2], deep: { b: 1, a: 2 } } },
    {
      filters: {
        list: [1, 2],
        deep: [
          ['a', '2'],
          ['b', 1],
        ],
      },
    },
    { questionIds: ['q1'] },
    { questionIds: ['q1', 'q3'] },
    { fields: ['topic', 'tags'] },
    { mode: 'AUTO' },
    { overwrite: true },
    { threshold: 0.70001 },
  ];
  const keys = [request, ...others.map((other) => ({ ...request, ...other }))].map(openKeyOf);
  t.equal(new Set(keys).size, keys.length);
  t.match(keys[0], /^[0-9a-f]{64}$/);
});

t.test('a job stream begins where its client left off', async (t) => {
  const running = { revision: 7, isOpen: true };
  const finished = { revision: 7, isOpen: false };
  t.equal(startOf(undefined, running).kind, 'snapshot');
  for (const unknown of ['', 'x', '-1', '0', '1.5', '1e3', ' 7', '8', '99999999999999999999']) {
    t.equal(startOf(unknown, running).kind, 'snapshot', unknown);
    t.equal(startOf(unknown, finished).kind, 'snapshot', unknown);
  }
  t.equal(startOf('6', running).kind, 'update');
  t.equal(startOf('6', finished).kind, 'update');
  t.equal(startOf('7', running).kind, 'nothing');
  t.equal(startOf('7', finished).kind, 'over');
});
