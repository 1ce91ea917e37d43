import fc from 'fast-check';
import t from 'tap';
import { CLASSIFY_FIELDS, type JobWish, openKeyOf } from './job.ts';

const wishes: fc.Arbitrary<JobWish> = fc.record({
  actorId: fc.string({ minLength: 1 }),
  organizationId: fc.string({ minLength: 1 }),
  filters: fc.dictionary(fc.string(), fc.jsonValue() as fc.Arbitrary<unknown>),
  questionIds: fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 12 }),
  fields: fc.uniqueArray(fc.constantFrom(...CLASSIFY_FIELDS), { minLength: 1 }),
  mode: fc.constantFrom('SUGGEST', 'AUTO'),
  overwrite: fc.boolean(),
  threshold: fc.double({ min: 0, max: 1, noNaN: true }),
});

t.test('the order of ids, fields and filter keys does not change the open key', async (t) => {
  fc.assert(
    fc.property(wishes, (wish) => {
      const turned: JobWish = {
        ...wish,
        questionIds: wish.questionIds.toReversed(),
        fields: wish.fields.toReversed(),
        filters: turnedKeys(wish.filters) as Record<string, unknown>,
      };
      return openKeyOf(turned) === openKeyOf(wish);
    }),
  );
  t.pass('the order never changes the key');
});

t.test('every other difference changes the open key', async (t) => {
  const wish: JobWish = {
    actorId: 'a',
    organizationId: 'o',
    filters: { list: [1, 2], deep: { b: 1, a: '2' } },
    questionIds: ['q1', 'q2'],
    fields: ['topic'],
    mode: 'SUGGEST',
    overwrite: false,
    threshold: 0.7,
  };
  const others: Partial<JobWish>[] = [
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
  const keys = [wish, ...others.map((other) => ({ ...wish, ...other }))].map(openKeyOf);
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
