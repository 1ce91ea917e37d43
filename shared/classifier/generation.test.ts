import fc from 'fast-check';
import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import type { GenerationRequest } from '#shared/generated/classifier.ts';
import {
  amountsOf,
  chargeOf,
  estimateOf,
  failureOf,
  type Generation,
  type Hold,
  holdsAhead,
  nextStep,
  type OwedGeneration,
  ownerKeysOf,
  type SettledGeneration,
} from './generation.ts';
import { generationFaults, generationKey, wantedGeneration } from './preview.ts';

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

const NOW = Date.parse('2026-11-21T00:00:00.000Z');
const at = (ms: number) => new Date(NOW + ms);

const FOUND = {
  _id: 'p-1',
  key: 'key',
  epoch: 3,
  organizationId: 'org-1',
  actor: { id: 'a', role: 'TEACHER' },
  leaseUntil: at(1_000),
  fence: 7,
  failure: null,
  usageConsumed: false,
  closed: null,
  createdAt: at(0),
} as const;
const MADE = {
  ...FOUND,
  result: '{}',
  charge: { credits: 6, tokens: 30 },
  commandId: 'c-1',
  replayUntil: at(1),
  idleSince: null,
};
const MAKING: Generation = {
  ...FOUND,
  state: 'MAKING',
  result: null,
  charge: null,
  commandId: null,
  replayUntil: null,
  settledAt: null,
  idleSince: at(0),
};
const PENDING: OwedGeneration = { ...MADE, state: 'PENDING', settledAt: null };
const SETTLED: SettledGeneration = { ...MADE, state: 'SETTLED', settledAt: at(0) };

const step = (row: Generation | null, waitedFor: { id: string; fence: number } | null = null) =>
  nextStep(row, { now: NOW, waitedFor });

t.test('the newest row of a key determines the next step of a request', async (t) => {
  t.match(step(null), { kind: 'open', epoch: 1 });
  t.match(step(MAKING), { kind: 'wait' });
  t.match(step({ ...MAKING, leaseUntil: at(0) }), { kind: 'acquire' });
  t.match(step(PENDING), { kind: 'settle', row: { _id: 'p-1' } });
  t.match(step(SETTLED), { kind: 'replay' });
});

t.test('an unpaid answer is left to its settlement command, whatever the lease of its row', async (t) => {
  for (const leaseUntil of [at(1_000), at(0)]) {
    const beside = { now: NOW, waitedFor: { id: 'p-1', fence: 7 } } as const;
    const failure = failureOf(7, { rejected: 'AI_PROVIDER_TIMEOUT' });
    t.match(nextStep({ ...PENDING, leaseUntil, failure }, beside), { kind: 'settle', row: { _id: 'p-1' } });
    t.match(nextStep({ ...SETTLED, leaseUntil }, beside), { kind: 'replay' });
  }
});

t.test('after a day a request is charged again, whether or not the old answer was paid', async (t) => {
  for (const row of [PENDING, SETTLED]) {
    for (const leaseUntil of [at(1_000), at(0)]) {
      const over = { ...row, leaseUntil, replayUntil: at(0) };
      t.match(step(over), { kind: 'open', epoch: 4, after: { _id: 'p-1' } }, row.state);
    }
  }
});

t.test('a request never takes a closed answer, at any time of the clock', async (t) => {
  for (const closed of ['EXPIRED', 'SUPERSEDED'] as const) {
    t.match(step({ ...PENDING, closed, replayUntil: at(1_000) }), { kind: 'open', epoch: 4 }, closed);
  }
});

t.test('a request that waited for a failed holder returns its failure; a later request acquires the row', async (t) => {
  const failure = failureOf(7, { rejected: 'AI_PROVIDER_TIMEOUT', retryAfter: 2 });
  const left = { ...MAKING, failure, leaseUntil: at(-1) };
  t.match(step(left, { id: 'p-1', fence: 7 }), {
    kind: 'refuse',
    rejection: { rejected: 'AI_PROVIDER_TIMEOUT', retryAfter: 2 },
  });
  t.match(step(left), { kind: 'acquire' });
  t.match(step(left, { id: 'p-1', fence: 6 }), { kind: 'acquire' });
  t.match(step(left, { id: 'p-0', fence: 7 }), { kind: 'acquire' });
  t.match(step({ ...left, fence: 8, leaseUntil: at(1) }, { id: 'p-1', fence: 8 }), { kind: 'wait' });
});

const hold = (previewId: string, credits: number): Hold => ({
  previewId,
  fence: 1,
  credits,
  tokens: credits * 100,
  until: new Date(),
});

const counted = (credits: number) => ({ balance: credits, usage: { credits, tokens: credits * 100 } });

t.test('only earlier holds count ahead of a hold', async (t) => {
  const holds = [hold('a', 3), hold('b', 6), hold('c', 9)];
  t.strictSame(holdsAhead({ holds }, 'a'), counted(0));
  t.strictSame(holdsAhead({ holds }, 'c'), counted(9));
  t.strictSame(holdsAhead({ holds }, 'gone'), counted(18), 'without a place in line it is the last');
  t.strictSame(holdsAhead({ holds: [] }, 'a'), counted(0));
});

t.test('a hold that the usage service has counted holds only the balance', async (t) => {
  const holds = [{ ...hold('a', 3), usageConsumed: true }, { ...hold('b', 6), usageConsumed: false }, hold('c', 9)];
  t.strictSame(holdsAhead({ holds }, 'c'), { balance: 9, usage: { credits: 6, tokens: 600 } });
});

const COUNT = fc.integer({ min: 1, max: 20 });

t.test('the estimate that is held is never below the price in credits', async (t) => {
  t.strictSame(estimateOf(4), { credits: 12, tokens: 4_000 });
  fc.assert(
    fc.property(COUNT, fc.integer({ min: 1, max: 100 }), (asked, returned) => {
      const charge = chargeOf({ asked, returned, usage: { inputTokens: null, outputTokens: null } });
      return charge.credits <= estimateOf(asked).credits && charge.credits === 3 * Math.min(asked, returned);
    }),
  );
});

t.test('tokens are the provider’s count, otherwise the estimate', async (t) => {
  const tokens = (inputTokens: number | null, outputTokens: number | null) =>
    chargeOf({ asked: 2, returned: 1, usage: { inputTokens, outputTokens } }).tokens;
  t.equal(tokens(10, 20), 30);
  t.equal(tokens(0, 0), 0, 'zero is a count');
  for (const [input, output] of [
    [null, 20],
    [10, null],
    [null, null],
    [-5, 2],
    [-5, 20],
    [20, -5],
    [1.5, 1.5],
    [Number.NaN, 1],
    [1.5, 2],
    [Number.MAX_SAFE_INTEGER, 2],
  ] as const) {
    t.equal(tokens(input, output), 2_000, `${input}, ${output}`);
  }
});

t.test(
  'whatever a model answers and a provider counts, the price is three credits a question and whole tokens',
  async () => {
    const count = fc.oneof(
      fc.nat(1e6),
      fc.constant(null),
      fc.double(),
      fc.integer(),
      fc.constantFrom(Number.MAX_SAFE_INTEGER, Number.MAX_VALUE, -0),
    );
    fc.assert(
      fc.property(COUNT, fc.nat(100), count, count, (asked, returned, inputTokens, outputTokens) => {
        const { credits, tokens } = chargeOf({ asked, returned, usage: { inputTokens, outputTokens } });
        const parts = [inputTokens, outputTokens].filter((part) => Number.isSafeInteger(part) && Number(part) >= 0);
        const sum = Number(inputTokens) + Number(outputTokens);
        const isCounted = parts.length === 2 && Number.isSafeInteger(sum);
        return (
          credits === 3 * Math.min(asked, returned) &&
          credits <= estimateOf(asked).credits &&
          tokens === (isCounted ? sum : 1_000 * asked)
        );
      }),
    );
  },
);

t.test('a charge counts on three credit counters and one token counter', async (t) => {
  t.strictSame(amountsOf({ credits: 9, tokens: 50 }), [
    { counter: 'credits_monthly', amount: 9 },
    { counter: 'credits_weekly', amount: 9 },
    { counter: 'credits_hourly', amount: 9 },
    { counter: 'tokens_monthly', amount: 50 },
  ]);
});

t.test('keys of different previews and different owners differ', async () => {
  fc.assert(
    fc.property(fc.uuid(), fc.uuid(), (a, b) => {
      const keys = [a, b].flatMap((id) => Object.values(ownerKeysOf(id)));
      return new Set(keys).size === (a === b ? 2 : 4);
    }),
  );
});
