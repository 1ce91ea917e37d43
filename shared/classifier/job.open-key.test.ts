import fc from 'fast-check';
import t from 'tap';
import { type JobRequest, openKeyOf } from './job.ts';

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
  const request: JobRequest = {
    actorId: 'a',
    organizationId: 'o',
    filters: { list: [1, 2], deep: { b: 1, a: '2' } },
    questionIds: ['q1', 'q2'],
    fields: ['topic'],
    mode: 'SUGGEST',
    overwrite: false,
    threshold: 0.7,
  };
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

function turnedKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(turnedKeys);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, held]) => [key, turnedKeys(held)]),
  );
}
