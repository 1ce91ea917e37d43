import fc from 'fast-check';
import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import type { GenerationRequest } from '#shared/generated/classifier.ts';
import { generationFaults, generationKey, wantedGeneration } from './generation-request.ts';

const REQUEST: GenerationRequest = {
  mode: 'similar',
  subject: 'Toán',
  gradeLevel: '12',
  topic: 'Đạo hàm',
  questionType: 'SINGLE_CHOICE',
  difficulty: 'dễ',
  count: 3,
  referenceQuestionIds: ['q2', 'q1'],
};
const SCOPE = { organizationId: 'org-1', actorId: 'teacher-1' };
const keyOf = (request: GenerationRequest, scope = SCOPE) => generationKey(wantedGeneration(request), scope);

t.test('equivalent requests have one key', async (t) => {
  const key = keyOf(REQUEST);
  t.match(key, /^[0-9a-f]{64}$/);
  const same: GenerationRequest[] = [
    Object.fromEntries(Object.entries(REQUEST).reverse()) as unknown as GenerationRequest,
    { ...REQUEST, subject: ' Toán ', topic: 'Đạo hàm'.normalize('NFD') },
    { ...REQUEST, language: 'vi', instructions: '  ' },
    { ...REQUEST, gradeLevel: 12, referenceQuestionIds: ['q1', 'q2'] },
  ];
  for (const request of same) t.equal(keyOf(request), key, JSON.stringify(request));
});

t.test('every difference in request or caller changes the key', async (t) => {
  const keys = [
    keyOf(REQUEST),
    keyOf(REQUEST, { ...SCOPE, organizationId: 'org-2' }),
    keyOf(REQUEST, { ...SCOPE, actorId: 'teacher-2' }),
    keyOf(REQUEST, { organizationId: 'org-1teacher', actorId: '-1' }),
    ...(
      [
        { mode: 'fresh', referenceQuestionIds: [] },
        { subject: 'Văn' },
        { gradeLevel: '11' },
        { topic: 'Tích phân' },
        { questionType: 'ESSAY' },
        { difficulty: 'khó' },
        { count: 4 },
        { language: 'en' },
        { instructions: 'Ngắn' },
        { referenceQuestionIds: ['q1'] },
      ] satisfies Partial<GenerationRequest>[]
    ).map((change) => keyOf({ ...REQUEST, ...change })),
  ];
  t.equal(new Set(keys).size, keys.length);
});

t.test(
  'white space and composition of letters do not change the key, because the normalized text is hashed',
  async () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 30 });
    const blank = fc.constantFrom('', ' ', '\n\t', ' ');
    fc.assert(
      fc.property(text, blank, blank, (topic, before, after) => {
        const plain = wantedGeneration({ ...REQUEST, topic });
        const other = wantedGeneration({ ...REQUEST, topic: `${before}${topic.normalize('NFD')}${after}` });
        return generationKey(plain, SCOPE) === generationKey(other, SCOPE) && plain.topic === other.topic;
      }),
    );
  },
);

t.test('references are required for similar, forbidden otherwise, and unique', async (t) => {
  const path = '/referenceQuestionIds';
  t.strictSame(generationFaults(REQUEST), []);
  t.strictSame(generationFaults({ ...REQUEST, mode: 'fresh', referenceQuestionIds: [] }), []);
  t.match(generationFaults({ ...REQUEST, mode: 'fresh' }), [{ path }]);
  t.match(generationFaults({ ...REQUEST, referenceQuestionIds: [] }), [{ path }]);
  t.match(generationFaults({ ...REQUEST, referenceQuestionIds: ['a', 'b', 'a', 'b'] }), [
    { path: `${path}/2` },
    { path: `${path}/3` },
  ]);
});

t.test('a text that is too long when composed is a fault, by the limits of the schema', async (t) => {
  const request = loadSchemas().resolved('classifier/generation-request').properties ?? {};
  const payload = loadSchemas().resolved('classifier/generate-payload').properties ?? {};
  for (const name of ['subject', 'gradeLevel', 'topic', 'difficulty', 'instructions'] as const) {
    const most = request[name]?.maxLength ?? 0;
    t.equal(payload[name]?.maxLength, most, name);
    // U+09DF becomes two characters.
    const grown = { ...REQUEST, [name]: '\u09DF'.repeat(most / 2 + 1) };
    t.match(generationFaults(grown), [{ path: `/${name}`, message: RegExp(`at most ${most} characters`) }]);
    t.strictSame(generationFaults({ ...grown, [name]: '\u09DF'.repeat(most / 2) }), []);
  }
});
